/* The page of ztrain bench: one file with everything in it, well-formed as XML too. */
#include "cli/bench.h"

#include <math.h>
#include <string.h>

void zt_bench_escape(struct zt_text *to, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            zt_text_add(to, "&amp;");
            break;
        case '<':
            zt_text_add(to, "&lt;");
            break;
        case '>':
            zt_text_add(to, "&gt;");
            break;
        case '"':
            zt_text_add(to, "&quot;");
            break;
        case '\'':
            zt_text_add(to, "&#39;");
            break;
        default:
            zt_text_add(to, "%c", (unsigned char)*text < ' ' && *text != '\n' && *text != '\t' ? '?' : *text);
        }
    }
}

static void add(FILE *to, const char *text) {
    struct zt_text escaped = { 0 };
    zt_bench_escape(&escaped, text);
    fputs(escaped.at ? escaped.at : "", to);
    zt_text_finish(&escaped);
}

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<title>ztrain bench</title>\n<style>\n"
    ":root { color-scheme: light dark; --line: #8884; --soft: #8881; }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }\n"
    "h1 { margin-bottom: 0; } h2 { margin-top: 2.2rem; }\n"
    ".quiet { opacity: 0.75; } pre { background: var(--soft); padding: 0.6rem; overflow-x: auto; }\n"
    ".wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: 0.25rem 0.7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; "
    "}\n"
    "th { vertical-align: bottom; } th:first-child, td:first-child, td.text { text-align: left; }\n"
    "td.reason { white-space: normal; opacity: 0.75; text-align: left; } code { font-size: 0.9em; }\n"
    ".warning { border-left: 4px solid #d9822b; padding: 0.4rem 0.9rem; background: var(--soft); }\n"
    ".agree { border-left: 4px solid #3a9d5d; padding: 0.4rem 0.9rem; background: var(--soft); }\n"
    "dt { font-weight: 600; } figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; }\n"
    "figure svg text { fill: currentColor; } figure svg g { color: inherit; }\n"
    "</style>\n</head>\n<body>\n";

/* What each way trades, whether it was run or not. P: parameters, N: ranks. */
static const char *const trades[][2] = {
    { "DP",
      "One process, a thread for each replica: nothing to set up, but device 0 computes the loss, holds gradients and "
      "optimizer state for all and sends the weights out again every step, so it fills first and the others wait." },
    { "DDP",
      "Every rank holds everything and only gradients travel, behind the backward pass: the fastest where the model "
      "fits, and no memory is saved however many ranks there are." },
    { "ZeRO 1",
      "Optimizer states are split over the ranks: the bytes moved are those of DDP, and memory for Adam's states falls "
      "to one N-th, at the price of gathering the weights after the update." },
    { "ZeRO 2",
      "Gradients are split too: still the bytes of DDP without accumulation, but with it every micro-batch reduces, so "
      "what is saved in memory is paid in traffic." },
    { "ZeRO 3",
      "Parameters are split as well and gathered around every use, forward and backward: memory falls with the number "
      "of ranks, for half as many bytes again as DDP and waiting where a gather cannot hide behind compute." },
};

static void write_trades(FILE *to) {
    fputs("<h2>What the modes trade</h2>\n<dl>\n", to);
    for (size_t i = 0; i < sizeof trades / sizeof *trades; i++) {
        fprintf(to, "<dt>%s</dt>\n<dd>", trades[i][0]);
        add(to, trades[i][1]);
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
    add(to, r->mode->name);
    fprintf(to, "</td><td>%d</td>", r->ranks);
    if (r->batch > 0)
        fprintf(to, "<td>%lld</td>", (long long)r->batch);
    else
        fputs("<td></td>", to);
    if (r->reason[0]) {
        fputs("<td class=\"reason\" colspan=\"11\">", to);
        add(to, r->reason);
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
    add(to, r->weights);
    fputs("</code></td></tr>\n", to);
}

static void write_table(const struct zt_bench *b, FILE *to) {
    fputs(
        "<h2>Results</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>mode</th><th>ranks</th><th>batch</th>"
        "<th>step, "
        "median<br/>ms</th><th>quartiles<br/>ms</th><th>forecast<br/>ms</th><th>samples/s</th><th>scaling<br/"
        ">efficiency</th>"
        "<th>peak a rank,<br/>predicted</th><th>peak a rank,<br/>measured</th><th>sent by a rank<br/>a step, "
        "planned</th>"
        "<th>bubble,<br/>forecast</th><th>loss at<br/>the end</th><th>weights</th></tr></thead>\n<tbody>\n",
        to);
    for (int i = 0; i < b->row_count; i++)
        write_row(&b->rows[i], to);
    fputs(
        "</tbody></table></div>\n"
        "<p class=\"quiet\">Efficiency is samples/s over ranks times the samples/s of one rank at the same batch. "
        "Predicted are the five blocks of the plan (parameters, gradients, optimizer, activations, workspace) of the "
        "rank with most; measured is resident memory, the program and its libraries included, over the ranks. Forecast "
        "are a step's time and the bubble, by the run itself from what its own kernels and links took; bytes sent are "
        "the plan's. The same numbers stand in <code>results.tsv</code>, with what the plan said of time and bubble "
        "before anything had run.</p>\n",
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
        fputs("<p class=\"warning\">Weights differ where they should not: ", to);
        add(to, warnings.at);
        fputs("</p>\n", to);
    } else if (promise > 1) {
        fputs(
            "<p class=\"agree\">DDP and ZeRO 1 to 3 left the same weights, bit for bit, wherever ranks and batch are "
            "the same; so did all repeats. Pipelines and DP add in another order and agree to rounding.</p>\n",
            to);
    } else {
        fputs(
            "<p>Fewer than two rows promise the same bits (DDP and ZeRO 1 to 3 without accumulation), so there is "
            "nothing to compare.</p>\n",
            to);
    }
    zt_text_finish(&warnings);
}

/* " --name value", the value as a shell takes it; nothing where it is NULL. */
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
    add(to, word.at);
    zt_text_finish(&word);
}

/* A number that is below `least` was not given. */
static void write_number_option(const char *name, int64_t value, int64_t least, FILE *to) {
    if (value >= least)
        fprintf(to, " --%s %lld", name, (long long)value);
}

static void write_command(const struct zt_bench *b, FILE *to) {
    const struct zt_options *o = b->options;
    fputs("<pre>ztrain bench", to);
    write_option("model", o->model, to);
    write_option("config", o->config, to);
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
    fputs(head, to);
    fputs("<h1>ztrain bench</h1>\n<p class=\"quiet\">", to);
    add(to, b->machine);
    fputs("; ", to);
    add(to, b->when);
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
        fputs("<p>There are none: gnuplot is not installed, or no combination ran.</p>\n", to);
    write_trades(to);
    fputs("</body>\n</html>\n", to);
}
