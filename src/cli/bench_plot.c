/* The plots of ztrain bench, drawn by gnuplot. */
#include "cli/bench.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* A bar chart with a group of bars for every combination that ran: columns from 2 on of the data block, named by
 * `titles`. */
struct plot {
    const char *name, *title, *unit, *titles[2];
    double scale;
};

static double value_of(const struct zt_bench_row *r, int plot, int column) {
    switch (plot) {
    case 0:
        return column ? r->forecast_seconds : r->median;
    case 1:
        return r->rate;
    default:
        return (double)(column ? r->measured_bytes : r->predicted_bytes);
    }
}

static const struct plot plots[] = {
    { "time", "Time of a step", "ms", { "measured, median", "forecast" }, 1e3 },
    { "rate", "Samples a second", "samples/s", { "" }, 1 },
    { "memory", "Peak memory of a rank", "MB", { "planned: the five blocks", "measured: the process" }, 1e-6 },
};
enum { PLOTS = sizeof plots / sizeof plots[0] };

/* Mode names are letters, digits and dashes (zt_bench_mode), so nothing here needs quoting. */
static void write_script(const struct zt_bench *b, int plot, const char *picture, FILE *to) {
    const struct plot *p = &plots[plot];
    int columns = p->titles[1] ? 2 : 1;
    fputs("$rows << END\n", to);
    for (int i = 0; i < b->row_count; i++) {
        const struct zt_bench_row *r = &b->rows[i];
        if (r->reason[0])
            continue;
        fprintf(to, "\"%s\\n%d x %lld\"", r->mode->name, r->ranks, (long long)r->batch);
        for (int c = 0; c < columns; c++)
            fprintf(to, " %.9g", p->scale * value_of(r, plot, c));
        fputc('\n', to);
    }
    fprintf(to,
            "END\nset terminal svg size 900,360 dynamic font 'sans-serif,12' name '%s'\nset output '%s'\n"
            "set style data histogram\nset style histogram clustered gap 1\nset style fill solid 0.85\n"
            "set boxwidth 0.9\nset yrange [0:*]\nset grid ytics lc rgb '#808080' lw 0.4\nset border 3\n"
            "set tics nomirror\nset title '%s' noenhanced\nset ylabel '%s'\nset key %s\nset xtics noenhanced\nset "
            "bmargin 4\n"
            "plot ",
            p->name, picture, p->title, p->unit, columns > 1 ? "top left horizontal" : "off");
    for (int c = 0; c < columns; c++)
        fprintf(to, "%s$rows using %d:xtic(1) title '%s' lc rgb '%s'", c ? ", " : "", c + 2, p->titles[c],
                c ? "#d98032" : "#3a7ebf");
    fputc('\n', to);
}

/* Appends the <svg> element of the picture without the XML prologue. */
static void add_picture(const struct zt_file_map *map, const char *title, struct zt_text *to) {
    const char *text = (const char *)map->data, *at = text ? memmem(text, map->size, "<svg", 4) : NULL;
    if (!at)
        return;
    zt_text_add(to, "<figure aria-label=\"%s\">\n", title);
    zt_text_add_bytes(to, at, map->size - (size_t)(at - text));
    zt_text_add(to, "</figure>\n");
}

static bool draw(const struct zt_bench *b, int plot, const char *folder, struct zt_text *to, bool *there,
                 struct zt_err *err) {
    struct zt_file_map map;
    struct zt_file_out out;
    char *script = zt_path_join(folder, "plot.gp"), *log = zt_path_join(folder, "plot.log"), *picture;
    char name[40];
    int pid = -1, status = 1;
    snprintf(name, sizeof name, "%s.svg", plots[plot].name);
    picture = zt_path_join(folder, name);
    char *const argv[] = { (char *)"gnuplot", script, NULL };
    bool ok = zt_file_out_open(&out, script, err);
    if (ok) {
        write_script(b, plot, picture, out.stream);
        ok = zt_file_out_commit(&out, err) && zt_bench_start(argv, log, &pid, err);
    }
    *there = ok && pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    if (*there && (ok = zt_file_map(&map, picture, ZT_EXIT_DATA, err))) {
        add_picture(&map, plots[plot].title, to);
        ok = zt_file_close(&map, true, err);
    } else if (ok && pid > 0) {
        zt_say(&b->options->log, ZT_LOG_WARNING, "gnuplot failed; the page has no plot of: %s", plots[plot].title);
    }
    free(script);
    free(log);
    free(picture);
    return ok;
}

bool zt_bench_plot(const struct zt_bench *b, const char *folder, struct zt_text *to, struct zt_err *err) {
    bool ok = true, there = false;
    for (int i = 0; i < b->row_count; i++)
        there |= !b->rows[i].reason[0];
    if (!there)
        return true; /* nothing ran */
    if (strchr(folder, '\'')) {
        zt_say(&b->options->log, ZT_LOG_WARNING, "no plots: gnuplot would not understand a quote in %s", folder);
        return true;
    }
    ok = zt_file_make_folder(folder, err);
    for (int i = 0; ok && there && i < PLOTS; i++)
        ok = draw(b, i, folder, to, &there, err);
    return ok;
}
