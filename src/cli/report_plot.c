/* The figures of ztrain report, as SVG whose colours are classes of the page. */
#include "cli/report_runs.h"

#include <math.h>

enum { WIDTH = 520, HEIGHT = 306, LEFT = 62, RIGHT = 12, TOP = 28, BOTTOM = 40, TICKS = 5 };
static const double LOG_RATIO = 50; /* values that span more are drawn on a logarithmic axis */

struct axis {
    double low, high, step; /* between ticks; of the logarithm if `log` */
    bool log;
};

struct drawing {
    struct axis x, y;
    FILE *to;
};

/* ---- axes ---- */

/* Rounds the distance of ticks to 1, 2 or 5 times a power of ten. */
static double nice(double rough) {
    const double power = pow(10, floor(log10(rough))), digit = rough / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void divide(struct axis *a) {
    const double least = 1e-12 * fmax(fabs(a->low), fabs(a->high)); /* a smaller range is rounding */
    if (!(a->high - a->low > fmax(least, 1e-300))) {
        const double room = fabs(a->low) > 1e-300 ? fabs(a->low) / 10 : 1;
        a->low -= room;
        a->high += room;
    }
    a->step = nice((a->high - a->low) / TICKS);
    if (a->log && a->step < 1)
        a->step = 1;
    a->low = a->step * floor(a->low / a->step + 1e-9);
    a->high = a->step * ceil(a->high / a->step - 1e-9);
}

static double on(const struct axis *a, double value) {
    const double at = a->log ? log10(value) : value;
    return (at - a->low) / (a->high - a->low);
}

static double x_of(const struct drawing *d, double step) {
    return LEFT + on(&d->x, step) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct drawing *d, double value) {
    return HEIGHT - BOTTOM - on(&d->y, value) * (HEIGHT - TOP - BOTTOM);
}

static void widen(const struct zt_run_series *s, struct axis *y) {
    for (int i = 0; i < s->count; i++) {
        y->low = fmin(y->low, s->at[i].low);
        y->high = fmax(y->high, s->at[i].high);
    }
}

static bool find_axes(struct drawing *d, const struct zt_run *runs, int count, const struct zt_run_figure *f) {
    d->x = (struct axis){ .high = 1 };
    d->y = (struct axis){ .low = HUGE_VAL, .high = -HUGE_VAL };
    for (int r = 0; r < count; r++) {
        d->x.high = fmax(d->x.high, runs[r].last);
        widen(&runs[r].series[f->kind], &d->y);
        if (f->dashed < ZT_RUN_KINDS)
            widen(&runs[r].series[f->dashed], &d->y);
    }
    if (!isfinite(d->y.low) || !isfinite(d->y.high - d->y.low))
        return false;
    d->y.log = d->y.low > 1e-100 && d->y.high < 1e100 && d->y.high > LOG_RATIO * d->y.low;
    if (d->y.log) {
        d->y.low = log10(d->y.low);
        d->y.high = log10(d->y.high);
    } else if (d->y.low > 0 && d->y.low < d->y.high / 2) {
        d->y.low = 0;
    }
    d->x.step = nice(d->x.high / TICKS);
    divide(&d->y);
    return true;
}

/* Writes a number in few characters: 12, 0.05, 1.2k, 3.4M. */
static void write_number(double value, FILE *to) {
    static const struct {
        double least;
        const char *name;
    } units[] = { { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e4, "k" } };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (fabs(value) >= units[i].least && fabs(value) < 1e15) {
            const double unit = units[i].least == 1e4 ? 1e3 : units[i].least;
            fprintf(to, "%.4g%s", value / unit, units[i].name);
            return;
        }
    fprintf(to, "%.4g", value);
}

static void write_ticks(const struct drawing *d, const struct zt_run_figure *f) {
    FILE *to = d->to;
    for (int i = 0; i <= 2 * TICKS + 2; i++) {
        const double at = d->y.low + i * d->y.step, value = d->y.log ? pow(10, at) : at;
        if (at > d->y.high + d->y.step / 2)
            break;
        const double y = y_of(d, value);
        fprintf(to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT, y,
                WIDTH - RIGHT, LEFT - 6, y + 4);
        write_number(fabs(value) < d->y.step * 1e-9 && !d->y.log ? 0 : value, to);
        fputs("</text>\n", to);
    }
    for (int i = 0; i <= 2 * TICKS + 2; i++) {
        const double at = d->x.low + i * d->x.step;
        if (at > d->x.high)
            break;
        fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x_of(d, at), HEIGHT - BOTTOM + 16);
        write_number(fabs(at) < d->x.step * 1e-9 ? 0 : at, to);
        fputs("</text>\n", to);
    }
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
    fprintf(to, "<text class=\"unit\" x=\"%d\" y=\"%d\">%s%s</text>\n", LEFT, TOP - 12, f->unit,
            d->y.log ? " (logarithmic)" : "");
}

/* ---- lines ---- */

/* The band between the smallest and largest values that points stand for. */
static void write_band(const struct drawing *d, const struct zt_run_series *s, int colour) {
    if (s->width <= 1)
        return;
    fprintf(d->to, "<path class=\"band c%d\" d=\"", colour);
    for (int i = 0; i < s->count; i++)
        fprintf(d->to, "%c%.1f %.1f", i ? 'L' : 'M', x_of(d, s->at[i].step), y_of(d, s->at[i].high));
    for (int i = s->count - 1; i >= 0; i--)
        fprintf(d->to, "L%.1f %.1f", x_of(d, s->at[i].step), y_of(d, s->at[i].low));
    fputs("Z\"/>\n", d->to);
}

static void write_line(const struct drawing *d, const struct zt_run_series *s, int colour, bool dashed) {
    if (s->count == 0)
        return;
    write_band(d, s, colour);
    fprintf(d->to, "<path class=\"line%s c%d\" d=\"", dashed ? " dashed" : "", colour);
    for (int i = 0; i < s->count; i++)
        fprintf(d->to, "%c%.1f %.1f", i ? 'L' : 'M', x_of(d, s->at[i].step), y_of(d, s->at[i].mean));
    fputs("\"/>\n", d->to);
    for (int i = 0; i < s->count && (dashed || s->count == 1); i++)
        fprintf(d->to, "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>", colour, x_of(d, s->at[i].step),
                y_of(d, s->at[i].mean));
}

bool zt_run_draw(const struct zt_run *runs, int count, const struct zt_run_figure *f, FILE *to) {
    struct drawing d = { .to = to };
    if (!find_axes(&d, runs, count, f))
        return false;
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s over the steps\">\n", WIDTH, HEIGHT, f->title);
    write_ticks(&d, f);
    for (int r = 0; r < count; r++) {
        write_line(&d, &runs[r].series[f->kind], r % ZT_RUN_COLOURS, false);
        if (f->dashed < ZT_RUN_KINDS)
            write_line(&d, &runs[r].series[f->dashed], r % ZT_RUN_COLOURS, true);
    }
    fputs("</svg>\n", to);
    return true;
}
