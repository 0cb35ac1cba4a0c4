/* Statistics of the measurements: median and quartiles, rates, efficiency, and whether weights agree. */
#include "cli/bench.h"

#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double zt_bench_quantile(const double *sorted, int count, double at) {
    if (count == 0)
        return NAN;
    double place = at * (count - 1);
    int below = (int)floor(place), above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

static bool ran(const struct zt_bench_row *row) {
    return !row->reason[0] && row->count > 0;
}

void zt_bench_finish(struct zt_bench_row *rows, int count) {
    for (int i = 0; i < count; i++) {
        struct zt_bench_row *r = &rows[i];
        zt_sort_doubles(r->seconds, r->count);
        r->median = zt_bench_quantile(r->seconds, r->count, 0.5);
        r->low = zt_bench_quantile(r->seconds, r->count, 0.25);
        r->high = zt_bench_quantile(r->seconds, r->count, 0.75);
        r->rate = r->median > 0 ? (double)r->batch / r->median : NAN;
        r->efficiency = NAN;
        if (r->repeats == 0)
            r->forecast_seconds = r->forecast_bubble = NAN;
    }
    for (int i = 0; i < count; i++) {
        int base = 0;
        while (base < count && !(ran(&rows[base]) && rows[base].ranks == 1 && rows[base].batch == rows[i].batch))
            base++;
        if (base < count && ran(&rows[i]))
            rows[i].efficiency = rows[i].rate / (rows[i].ranks * rows[base].rate);
    }
}

/* Returns the first row whose weights row `i` must equal; i if it is the first, -1 if there is no such requirement. */
static int partner(const struct zt_bench_row *rows, int i) {
    if (!ran(&rows[i]) || !rows[i].mode->same_bits || rows[i].accumulation > 1)
        return -1;
    for (int k = 0; k < i; k++)
        if (ran(&rows[k]) && rows[k].mode->same_bits && rows[k].accumulation <= 1 && rows[k].ranks == rows[i].ranks &&
            rows[k].batch == rows[i].batch)
            return k;
    return i;
}

void zt_bench_warn(const struct zt_bench_row *rows, int count, struct zt_text *to) {
    for (int i = 0; i < count; i++) {
        int k = partner(rows, i);
        if (rows[i].unsteady)
            zt_text_add(to, "%s on %d ranks, batch %lld: repeated runs gave different weights.\n", rows[i].mode->name,
                        rows[i].ranks, (long long)rows[i].batch);
        if (k >= 0 && strcmp(rows[k].weights, rows[i].weights) != 0)
            zt_text_add(to,
                        "%s and %s on %d ranks, batch %lld: weights %s and %s, which should be equal bit for bit.\n",
                        rows[k].mode->name, rows[i].mode->name, rows[i].ranks, (long long)rows[i].batch,
                        rows[k].weights, rows[i].weights);
    }
}

/* ---- as text ---- */

static void add_number(FILE *to, double value, const char *format, int width) {
    char text[40] = "-";
    if (isfinite(value))
        snprintf(text, sizeof text, format, value);
    fprintf(to, "  %*s", width, text);
}

static void add_bytes(FILE *to, double bytes) {
    char text[32];
    fprintf(to, "  %10s", zt_format_bytes(text, bytes));
}

void zt_bench_print(const struct zt_bench_row *rows, int count, FILE *to) {
    fprintf(to, "%-16s %5s %6s  %10s  %10s  %10s  %10s  %10s  %10s  %10s  %6s  %9s  %s\n", "mode", "ranks", "batch",
            "step ms", "forecast", "samples/s", "efficiency", "predicted", "measured", "sent/step", "bubble", "loss",
            "weights");
    for (int i = 0; i < count; i++) {
        const struct zt_bench_row *r = &rows[i];
        char batch[24] = "-";
        if (r->batch > 0)
            snprintf(batch, sizeof batch, "%lld", (long long)r->batch);
        fprintf(to, "%-16s %5d %6s", r->mode->name, r->ranks, batch);
        if (r->reason[0]) {
            fprintf(to, "  %s\n", r->reason);
            continue;
        }
        add_number(to, r->median * 1e3, "%.3f", 10);
        add_number(to, r->forecast_seconds * 1e3, "%.3f", 10);
        add_number(to, r->rate, "%.0f", 10);
        add_number(to, r->efficiency, "%.2f", 10);
        add_bytes(to, (double)r->predicted_bytes);
        add_bytes(to, (double)r->measured_bytes);
        add_bytes(to, r->sent_bytes);
        add_number(to, r->forecast_bubble, "%.2f", 6);
        add_number(to, r->loss, "%.5f", 9);
        fprintf(to, "  %s\n", r->weights);
    }
}

static void add_field(FILE *to, double value, const char *format) {
    fputc('\t', to);
    if (isfinite(value))
        fprintf(to, format, value);
}

void zt_bench_write_tsv(const struct zt_bench_row *rows, int count, FILE *to) {
    fputs(
        "mode\tranks\tbatch\tmicro_batch\taccumulation\trepeats\tsteps\tmedian_ms\tquartile1_ms\tquartile3_"
        "ms\tforecast_ms\tplanned_ms\t"
        "samples_per_second\tefficiency\tpredicted_bytes\tmeasured_bytes\tplanned_sent_bytes\tforecast_bubble\tplanned_"
        "bubble\tloss\tweights\treason\n",
        to);
    for (int i = 0; i < count; i++) {
        const struct zt_bench_row *r = &rows[i];
        fprintf(to, "%s\t%d\t%lld\t%lld\t%lld\t%d\t%d", r->mode->name, r->ranks, (long long)r->batch,
                (long long)r->micro_batch, (long long)r->accumulation, r->repeats, r->count);
        add_field(to, r->median * 1e3, "%.6g");
        add_field(to, r->low * 1e3, "%.6g");
        add_field(to, r->high * 1e3, "%.6g");
        add_field(to, r->forecast_seconds * 1e3, "%.6g");
        add_field(to, r->planned_seconds > 0 ? r->planned_seconds * 1e3 : NAN, "%.6g");
        add_field(to, r->rate, "%.6g");
        add_field(to, r->efficiency, "%.4f");
        fprintf(to, "\t%lld\t%lld", (long long)r->predicted_bytes, (long long)r->measured_bytes);
        add_field(to, r->sent_bytes, "%.0f");
        add_field(to, r->forecast_bubble, "%.4f");
        add_field(to, r->planned_bubble, "%.4f");
        add_field(to, ran(r) ? r->loss : NAN, "%.9g");
        fprintf(to, "\t%s\t", r->weights);
        for (const char *c = r->reason; *c; c++)
            fputc(*c == '\t' ? ' ' : *c, to);
        fputc('\n', to);
    }
}
