/* ztrain report: one page with the curves of a run, or of several over each other. */
#include "cli/commands.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/show.h"
#include "cli/html.h"
#include "cli/report_runs.h"

#include <math.h>
#include <stdlib.h>

static const char style[] =
    ":root { --c0: #2f6fb0; --c1: #c4621a; --c2: #2c8a4b; --c3: #a33a8d; --c4: #8a6d00; --c5: #00808f; --c6: #c0304a; "
    "--c7: #5a55b8; }\n"
    "@media (prefers-color-scheme: dark) { :root { --c0: #6db3f2; --c1: #f2a25c; --c2: #6ecb8b; --c3: #e08fd0; "
    "--c4: #d8bd4a; --c5: #5fc9d6; --c6: #f58296; --c7: #aba6f5; } }\n"
    ".c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }\n"
    ".c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }\n"
    ".line { fill: none; stroke: var(--c); stroke-width: 1.6; stroke-linejoin: round; }\n"
    ".dashed { stroke-dasharray: 5 3; } .dot { fill: var(--c); } .band { fill: var(--c); opacity: 0.18; }\n"
    ".grid { stroke: var(--line); } svg text { font-size: 14px; } .unit { opacity: 0.75; }\n"
    ".figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); gap: 0 1.5rem; "
    "}\n"
    ".figures h2 { margin: 1rem 0 0; font-size: 1.1rem; } figure { margin: 0.3rem 0 1rem; min-width: 0; }\n"
    ".swatch { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; background: var(--c); "
    "margin-right: 0.4em; }\n"
    "td.run { white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }\n";

static const struct zt_run_figure figures[] = {
    { "Loss", "loss", ZT_RUN_LOSS, ZT_RUN_EVAL_LOSS },
    { "Learning rate", "lr", ZT_RUN_LR, ZT_RUN_KINDS },
    { "Accuracy", "accuracy", ZT_RUN_ACCURACY, ZT_RUN_KINDS },
    { "Throughput", "samples/s", ZT_RUN_RATE, ZT_RUN_KINDS },
    { "Memory", "bytes", ZT_RUN_MEMORY, ZT_RUN_KINDS },
    { "Gradient norm", "norm", ZT_RUN_GRAD_NORM, ZT_RUN_KINDS },
};
enum { FIGURES = sizeof figures / sizeof *figures };

/* ---- the table ---- */

static void number_cell(double value, const char *format, FILE *to) {
    fputs("<td>", to);
    if (isfinite(value))
        fprintf(to, format, value);
    fputs("</td>", to);
}

static void write_row(const struct zt_run *r, int number, FILE *to) {
    char peak[32] = "";
    fprintf(to, "<tr><td class=\"run\"><span class=\"swatch c%d\"></span>", number % ZT_RUN_COLOURS);
    zt_html_write(r->folder, to);
    fprintf(to, "</td><td>%lld</td><td>%lld</td><td>%lld</td>", (long long)r->steps, (long long)r->epoch,
            (long long)r->skipped);
    number_cell(r->loss, "%.5g", to);
    number_cell(r->best_loss, "%.5g", to);
    number_cell(r->best_accuracy, "%.4f", to);
    number_cell(r->seconds > 0 ? r->samples / r->seconds : NAN, "%.0f", to);
    number_cell(r->seconds > 0 ? r->seconds : NAN, "%.1f", to);
    fprintf(to, "<td>%s</td></tr>\n", isfinite(r->peak) ? zt_format_bytes(peak, r->peak) : "");
}

static void write_table(const struct zt_run *runs, int count, FILE *to) {
    fputs(
        "<div class=\"wide\"><table>\n<thead><tr><th>run</th><th>steps</th><th>epoch</th><th>skipped</th><th>last<br/>"
        "loss</th><th>best<br/>evaluation</th><th>best<br/>accuracy</th><th>samples/s</th><th>seconds in<br/>steps</th>"
        "<th>peak<br/>memory</th></tr></thead>\n<tbody>\n",
        to);
    for (int i = 0; i < count; i++)
        write_row(&runs[i], i, to);
    fputs("</tbody></table></div>\n", to);
    for (int i = 0; i < count; i++) {
        if (!runs[i].broken)
            continue;
        fprintf(to, "<p class=\"warning\">%lld lines of ", (long long)runs[i].broken);
        zt_html_write(runs[i].folder, to);
        fputs(" are no rows of a run and are left out.</p>\n", to);
    }
}

/* ---- the page ---- */

static void write_figures(const struct zt_run *runs, int count, FILE *to) {
    fputs("<div class=\"figures\">\n", to);
    for (int i = 0; i < FIGURES; i++) {
        fprintf(to, "<section>\n<h2>%s</h2>\n<figure>\n", figures[i].title);
        if (!zt_run_draw(runs, count, &figures[i], to))
            fputs("<p class=\"quiet\">No run has these values.</p>\n", to);
        fputs("</figure>\n</section>\n", to);
    }
    fputs(
        "</div>\n<p class=\"quiet\">Dashed lines with dots are evaluations. A line of a long run shows means of "
        "neighbouring steps, its band their smallest and largest values. The memory is the resident memory of rank "
        "0's process, with the rank's blocks on a device.</p>\n",
        to);
}

static void write_page(const struct zt_run *runs, int count, FILE *to) {
    zt_html_begin("ztrain report", style, to);
    fprintf(to, "<h1>ztrain report</h1>\n<p class=\"quiet\">ztrain %s</p>\n", ZT_VERSION);
    write_table(runs, count, to);
    write_figures(runs, count, to);
    zt_html_end(to);
}

static bool write_file(const char *path, const struct zt_run *runs, int count, struct zt_err *err) {
    struct zt_file_out out;
    if (!zt_file_out_open(&out, path, err))
        return false;
    write_page(runs, count, out.stream);
    if (!zt_file_out_commit(&out, err))
        return false;
    zt_show_print(stdout, path);
    putchar('\n');
    return true;
}

bool zt_cli_report(const struct zt_options *o, struct zt_err *err) {
    const int count = o->run_count;
    struct zt_run *runs = zt_calloc((size_t)count, sizeof *runs);
    bool ok = true;
    for (int i = 0; i < count; i++)
        ok = zt_run_read(&runs[i], o->runs[i], err) && ok;
    for (int i = 0; ok && i < count; i++)
        if (runs[i].broken)
            zt_say(&o->log, ZT_LOG_WARNING, "%s: %lld line%s no rows of a run and left out", o->runs[i],
                   (long long)runs[i].broken, runs[i].broken == 1 ? " is" : "s are");
    char *path = zt_path_join(o->output ? o->output : o->runs[0], "report.html");
    ok = ok && (!o->output || zt_file_make_folder(o->output, err)) && write_file(path, runs, count, err);
    for (int i = 0; i < count; i++)
        zt_run_finish(&runs[i]);
    free(path);
    free(runs);
    return ok;
}
