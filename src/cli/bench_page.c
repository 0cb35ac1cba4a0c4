/* The page of ztrain bench: one self-contained file, also well-formed XML. */
#include "cli/bench.h"

#include "cli/html.h"

#include <math.h>
#include <string.h>

/* The trade-offs of each mode, whether it was run or not. P: parameters, N: ranks. */
static const char *const trades[][2] = {
    { "DP",
      "One process with a thread for each replica: it needs no setup. Device 0 computes the loss, holds all gradients "
      "and optimizer states and broadcasts the weights every step. Its memory fills first, and the other devices wait "
      "for it." },
    { "DDP",
      "Every rank holds the whole model, and only gradients are communicated, overlapped with the backward pass. DDP "
      "is the fastest mode if the model fits, but more ranks save no memory." },
    { "ZeRO 1",
      "Optimizer states are sharded over the ranks. The traffic equals that of DDP, and the memory for Adam's states "
      "falls to 1/N. The weights must be gathered after the update." },
    { "ZeRO 2",
      "Gradients are sharded too. Without accumulation the traffic equals that of DDP. With accumulation every "
      "micro-batch reduces its gradients, which trades memory for traffic." },
    { "ZeRO 3",
      "Parameters are sharded as well and gathered before every use, forward and backward. Memory falls with the "
      "number of ranks. The traffic is 1.5 times that of DDP, and ranks wait if a gather cannot overlap with "
      "computation." },
};

static void write_trades(FILE *to) {
    fputs("<h2>Trade-offs of the modes</h2>\n<dl>\n", to);
    for (size_t i = 0; i < sizeof trades / sizeof *trades; i++) {
        fprintf(to, "<dt>%s</dt>\n<dd>", trades[i][0]);
        zt_html_write(trades[i][1], to);
        fputs("</dd>\n", to);
    }
    fputs("</dl>\n", to);
}

static void cell(FILE *to, double value, const char *format) {
    fputs("<td>", to);
    if (isfinite(value))
        fprintf(to, format, value);
    fputs("</td>", to);
}

static void bytes_cell(FILE *to, double bytes) {
    char text[32];
    fprintf(to, "<td>%s</td>", zt_format_bytes(text, bytes));
}

static void write_row(const struct zt_bench_row *r, FILE *to) {
    fputs("<tr><td>", to);
    zt_html_write(r->mode->name, to);
    fprintf(to, "</td><td>%d</td>", r->ranks);
    if (r->batch > 0)
        fprintf(to, "<td>%lld</td>", (long long)r->batch);
    else
        fputs("<td></td>", to);
    if (r->reason[0]) {
        fputs("<td class=\"reason\" colspan=\"11\">", to);
        zt_html_write(r->reason, to);
        fputs("</td></tr>\n", to);
        return;
    }
    cell(to, r->median * 1e3, "%.3f");
    fprintf(to, "<td>%.3f to %.3f</td>", r->low * 1e3, r->high * 1e3);
    cell(to, r->forecast_seconds * 1e3, "%.3f");
    cell(to, r->rate, "%.0f");
    cell(to, r->efficiency, "%.2f");
    bytes_cell(to, (double)r->predicted_bytes);
    bytes_cell(to, (double)r->measured_bytes);
    bytes_cell(to, r->sent_bytes);
    cell(to, r->forecast_bubble, "%.2f");
    cell(to, r->loss, "%.5f");
    fputs("<td class=\"text\"><code>", to);
    zt_html_write(r->weights, to);
    fputs("</code></td></tr>\n", to);
}

static void write_table(const struct zt_bench *b, FILE *to) {
    fputs(
        "<h2>Results</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>mode</th><th>ranks</th><th>batch</th>"
        "<th>step, "
        "median<br/>ms</th><th>quartiles<br/>ms</th><th>forecast<br/>ms</th><th>samples/s</th><th>scaling<br/"
        ">efficiency</th>"
        "<th>peak per rank,<br/>predicted</th><th>peak per rank,<br/>measured</th><th>sent per rank<br/>and step, "
        "planned</th>"
        "<th>bubble,<br/>forecast</th><th>loss at<br/>the end</th><th>weights</th></tr></thead>\n<tbody>\n",
        to);
    for (int i = 0; i < b->row_count; i++)
        write_row(&b->rows[i], to);
    fputs(
        "</tbody></table></div>\n"
        "<p class=\"quiet\">Efficiency is samples/s over ranks times the samples/s of one rank at the same batch. "
        "The predicted peak is the memory of the plan (parameters, gradients, optimizer, activations, workspace) for "
        "the rank with the most. The measured peak is the resident memory of all ranks, including the program and its "
        "libraries, divided by their number. Each run forecasts step time and bubble from the measured speed of its "
        "own kernels and links. The plan gives the bytes sent. <code>results.tsv</code> has the same numbers, and the "
        "plan's step time and bubble before any measurement.</p>\n",
        to);
}

static void write_agreement(const struct zt_bench *b, FILE *to) {
    struct zt_text warnings = { 0 };
    int promise = 0;
    for (int i = 0; i < b->row_count; i++)
        promise += !b->rows[i].reason[0] && b->rows[i].mode->same_bits && b->rows[i].accumulation <= 1;
    zt_bench_warn(b->rows, b->row_count, &warnings);
    fputs("<h2>Do the modes agree?</h2>\n", to);
    if (warnings.at) {
        fputs("<p class=\"warning\">Weights differ although they should be equal: ", to);
        zt_html_write(warnings.at, to);
        fputs("</p>\n", to);
    } else if (promise > 1) {
        fputs(
            "<p class=\"agree\">For equal ranks and batch, DDP and ZeRO 1 to 3 give the same weights bit for bit, and "
            "so do all repeats. Pipelines and DP add in another order and agree to rounding.</p>\n",
            to);
    } else {
        fputs(
            "<p>Fewer than two rows must have equal weights (DDP and ZeRO 1 to 3 without accumulation), so there is "
            "nothing to compare.</p>\n",
            to);
    }
    zt_text_finish(&warnings);
}

/* Writes " --name value" quoted for a shell; nothing if the value is NULL. */
static void write_option(const char *name, const char *value, FILE *to) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+:,./@%";
    struct zt_text word = { 0 };
    if (!value)
        return;
    const char *quote = value[strspn(value, plain)] ? "'" : "";
    zt_text_add(&word, " --%s %s", name, quote);
    for (const char *c = value; *c; c++)
        zt_text_add_bytes(&word, *c == '\'' ? "'\\''" : c, *c == '\'' ? 4 : 1);
    zt_text_add(&word, "%s", quote);
    zt_html_write(word.at, to);
    zt_text_finish(&word);
}

/* Writes an option with a number; a number below `least` was not given. */
static void write_number_option(const char *name, int64_t value, int64_t least, FILE *to) {
    if (value >= least)
        fprintf(to, " --%s %lld", name, (long long)value);
}

static void write_command(const struct zt_bench *b, FILE *to) {
    const struct zt_options *o = b->options;
    fputs("<pre>ztrain bench", to);
    write_option("model", o->model, to);
    for (int i = 0; i < o->configs.count; i++)
        write_option("config", o->configs.at[i], to);
    write_option("modes", o->modes, to);
    write_option("ranks", o->rank_list, to);
    write_option("batch-sizes", o->batch_sizes, to);
    write_option("data", o->over.data, to);
    write_option("device", o->over.device, to);
    for (int i = 0; i < o->over.set_count; i++)
        write_option("set", o->over.set[i], to);
    write_number_option("steps", b->steps, 1, to);
    write_number_option("warmup", b->warmup, 0, to);
    write_number_option("repeats", b->repeats, 1, to);
    write_number_option("seed", o->over.seed, 0, to);
    write_number_option("threads", o->over.threads, 1, to);
    write_option("output", o->output, to);
    fputs("</pre>\n", to);
}

static void write_head(const struct zt_bench *b, FILE *to) {
    zt_html_begin("ztrain bench", "", to);
    fputs("<h1>ztrain bench</h1>\n<p class=\"quiet\">", to);
    zt_html_write(b->machine, to);
    fputs("; ", to);
    zt_html_write(b->when, to);
    fprintf(to, "; ztrain %s</p>\n", ZT_VERSION);
    write_command(b, to);
}

void zt_bench_write_page(const struct zt_bench *b, const struct zt_text *plots, FILE *to) {
    write_head(b, to);
    write_table(b, to);
    write_agreement(b, to);
    fputs("<h2>Plots</h2>\n", to);
    if (plots->at)
        fwrite(plots->at, 1, plots->length, to);
    else
        fputs("<p>There are no plots: gnuplot is not installed, or no combination ran.</p>\n", to);
    write_trades(to);
    zt_html_end(to);
}
