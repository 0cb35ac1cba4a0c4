#include "report/flops.h"

#include "base/show.h"
#include "base/vec.h"
#include "graph/ir/op.h"
#include "parallel/schedule/program.h"
#include "report/modules.h"

#include <stdlib.h>
#include <string.h>

/* The nodes of a phase that are one operator. */
struct op_row {
    const char *op;
    bool backward;
    int nodes;
    double macs, flops, seconds;
};
typedef ZT_VEC(struct op_row) op_rows;

/* A stage of the report. */
struct stage {
    const struct zt_flops_report *report;
    const struct zt_rank_plan *plan;
    const double *times;
    struct zt_flops_latency latency;
    struct zt_modules modules;
    op_rows ops;
    double params, macs, forward_flops, backward_flops;
};

/* ---- counting ---- */

static double seconds_of(const struct stage *s, int node) {
    const double seconds = s->times ? s->times[ZT_PARTS + node] : -1;
    return seconds > 0 ? seconds : 0;
}

static void add_op(op_rows *ops, const char *op, bool backward, const struct zt_module *numbers) {
    int i = 0;
    while (i < ops->count && (strcmp(ops->at[i].op, op) != 0 || ops->at[i].backward != backward))
        i++;
    if (i == ops->count)
        zt_vec_push(ops, (struct op_row){ .op = op, .backward = backward });
    struct op_row *row = &ops->at[i];
    row->nodes++;
    row->macs += numbers->macs;
    row->flops += numbers->flops;
    row->seconds += numbers->seconds;
}

static void count_phase(struct stage *s, const struct zt_command *commands, int count, bool backward) {
    const struct zt_graph *g = s->plan->programs.train.at[0]->training_graph.graph;
    for (int i = 0; i < count; i++) {
        const int n = commands[i].node;
        if (commands[i].kind != ZT_RUN_NODE)
            continue;
        const struct zt_module numbers = { .macs = zt_op_macs(g, n),
                                           .flops = zt_op_flops(g, n),
                                           .seconds = seconds_of(s, n) };
        add_op(&s->ops, g->nodes[n]->op_type, backward, &numbers);
        *(backward ? &s->backward_flops : &s->forward_flops) += numbers.flops;
        if (backward)
            continue;
        s->macs += numbers.macs;
        zt_modules_add(&s->modules, g->nodes[n]->name, &numbers);
    }
}

static void count(struct stage *s) {
    const struct zt_program *p = s->plan->programs.train.at[0];
    const struct zt_flat *flat = s->plan->tensors.flat;
    count_phase(s, p->forward, p->forward_count, false);
    count_phase(s, p->backward, p->backward_count, true);
    for (int t = 0; t < flat->own_tensors; t++) {
        s->params += (double)flat->tensors[t].count;
        zt_modules_add_param(&s->modules, flat->tensors[t].name, (double)flat->tensors[t].count);
    }
}

/* ---- numbers as text ---- */

struct unit {
    double least;
    const char *name;
};

/* Writes a number as "1.23 G" with the letter of its size. */
static const char *with_unit(char text[32], double value, bool params) {
    static const struct unit units[] = { { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e3, "K" } };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (value >= units[i].least) {
            snprintf(text, 32, "%.2f %s", value / units[i].least, params && i == 1 ? "B" : units[i].name);
            return text;
        }
    snprintf(text, 32, "%.2f ", value);
    return text;
}

static const char *duration(char text[32], double seconds) {
    static const struct unit units[] = { { 1, "s" }, { 1e-3, "ms" }, { 0, "us" } };
    int i = 0;
    while (seconds < units[i].least)
        i++;
    snprintf(text, 32, "%.2f %s", seconds / (i == 2 ? 1e-6 : units[i].least), units[i].name);
    return text;
}

static double share(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static double per_second(double flops, double seconds) {
    return seconds > 0 ? flops / seconds : 0;
}

/* ---- the groups of rows ---- */

static void row(FILE *to, const char *label, const char *value) {
    fprintf(to, "%-70s  %s\n", label, value);
}

static void count_row(FILE *to, const char *label, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.0f", value);
    row(to, label, text);
}

static void flops_row(FILE *to, const char *label, double flops, const char *unit) {
    char number[32], text[48];
    snprintf(text, sizeof text, "%s%s", with_unit(number, flops, false), unit);
    row(to, label, text);
}

static void duration_row(FILE *to, const char *label, double seconds) {
    char text[32];
    row(to, label, duration(text, seconds));
}

static void write_sizes(const struct stage *s, FILE *to) {
    const struct zt_plan *plan = s->report->plan;
    double model = 0;
    char text[32];
    for (int i = 0; i < plan->grid.stages; i++)
        for (int t = 0; t < plan->stage[i]->tensors.flat->own_tensors; t++)
            model += (double)plan->stage[i]->tensors.flat->tensors[t].count;
    count_row(to, "world size:", plan->grid.world);
    count_row(to, "data parallel size:", plan->grid.data);
    count_row(to, "model parallel size:", 1);
    if (plan->grid.stages > 1)
        count_row(to, "pipeline stages:", plan->grid.stages);
    count_row(to, "batch size per GPU:", (double)s->plan->steps.full.rows);
    count_row(to, "micro-batches per step:", s->plan->steps.full.micro_batches);
    row(to, "params per GPU:", with_unit(text, s->params, true));
    row(to, "params of model = params per GPU * mp_size:", with_unit(text, model, true));
    fputc('\n', to);
}

static void write_forward(const struct stage *s, FILE *to) {
    flops_row(to, "fwd MACs per GPU:", s->macs, "MACs");
    flops_row(to, "fwd flops per GPU:", s->forward_flops, "");
    flops_row(to, "fwd flops of model = fwd flops per GPU * mp_size:", s->forward_flops, "");
    duration_row(to, "fwd latency:", s->latency.forward);
    flops_row(to,
              "fwd FLOPS per GPU = fwd flops per GPU / fwd latency:", per_second(s->forward_flops, s->latency.forward),
              "FLOPS");
    fputc('\n', to);
}

/* recompute_fwd_factor; where the config does not give it, the part of the forward phase's FLOPs that the backward
 * phase of this stage computes again. */
static double recompute_factor(const struct stage *s) {
    const double given = s->report->plan->job->config->flops.recompute_fwd_factor;
    if (given >= 0)
        return given;
    return s->forward_flops > 0 ? s->plan->programs.train.at[0]->recomputed.flops / s->forward_flops : 0;
}

/* `base` + r with at most 4 significant digits of r. */
static double printed_factor(int base, double r) {
    char text[32];
    snprintf(text, sizeof text, "%.4g", r);
    return base + strtod(text, NULL);
}

/* DeepSpeed takes the backward phase as (2 + r) times the forward phase. */
static void write_backward(const struct stage *s, FILE *to) {
    const double r = recompute_factor(s), forward = s->forward_flops, seconds = s->latency.backward;
    char label[160];
    duration_row(to, "bwd latency:", seconds);
    snprintf(label, sizeof label, "bwd FLOPS per GPU = %.10g * fwd flops per GPU / bwd latency:", printed_factor(2, r));
    flops_row(to, label, per_second((2 + r) * forward, seconds), "FLOPS");
    snprintf(label, sizeof label,
             "fwd+bwd FLOPS per GPU = %.10g * fwd flops per GPU / (fwd+bwd latency):", printed_factor(3, r));
    flops_row(to, label, per_second((3 + r) * forward, s->latency.forward + seconds), "FLOPS");
    fputc('\n', to);
}

static void write_step(const struct stage *s, FILE *to) {
    const double r = recompute_factor(s), iter = s->latency.iter;
    const int micro_batches = s->plan->steps.full.micro_batches;
    char label[160], times[40] = "", text[32];
    if (micro_batches > 1)
        snprintf(times, sizeof times, " * %d micro-batches", micro_batches);
    duration_row(to, "step latency:", s->latency.step);
    duration_row(to, "iter latency:", iter);
    snprintf(label, sizeof label, "FLOPS per GPU = %.10g * fwd flops per GPU%s / iter latency:", printed_factor(3, r),
             times);
    flops_row(to, label, per_second((3 + r) * s->forward_flops * micro_batches, iter), "FLOPS");
    snprintf(text, sizeof text, "%.2f", per_second((double)s->report->samples, iter));
    row(to, "samples/second:", text);
    fputc('\n', to);
}

/* The rate of the machine for the products of this config. */
static double peak_of(const struct zt_plan *plan) {
    const struct zt_config *c = plan->job->config;
    const struct zt_machine *m = &plan->machine;
    const double fp32 = m->product_flops > m->conv_flops ? m->product_flops : m->conv_flops;
    return c->bf16 || c->fp16.enabled ? (m->half_flops > 0 ? m->half_flops : fp32) : fp32;
}

/* Writes the FLOPs counted on the graph, with recomputation and fused gradients. */
static void write_counted(const struct stage *s, FILE *to) {
    const double micro_batches = s->plan->steps.full.micro_batches;
    const double all = (s->forward_flops + s->backward_flops) * micro_batches;
    const double achieved = per_second(all, s->latency.iter), peak = peak_of(s->report->plan);
    char text[32], label[160];
    flops_row(to, "bwd flops per GPU, counted on the graph:", s->backward_flops, "");
    flops_row(to, "flops of the step per GPU, counted on the graph:", all, "");
    flops_row(to, "achieved FLOPS per GPU = flops of the step / iter latency:", achieved, "FLOPS");
    snprintf(label, sizeof label, "peak FLOPS per GPU (%s):", s->report->plan->machine.name);
    flops_row(to, label, peak, "FLOPS");
    snprintf(text, sizeof text, "%.2f %%", share(achieved, peak));
    row(to, "achieved share of peak:", text);
    fputc('\n', to);
}

/* ---- modules ---- */

enum measure { PARAMS, MACS, SECONDS, MEASURES };

static double measure_of(const struct zt_module *m, enum measure which) {
    return which == PARAMS ? m->params : which == MACS ? m->macs : m->seconds;
}

/* Sums of the modules of one class at one depth. */
struct class_row {
    const char *name;
    struct zt_module sums;
};
typedef ZT_VEC(struct class_row) class_rows;

static void list_classes(const struct zt_modules *m, int depth, class_rows *to) {
    to->count = 0;
    for (int i = 0; i < m->count; i++) {
        int k = 0;
        if (m->at[i].depth != depth)
            continue;
        while (k < to->count && strcmp(to->at[k].name, m->at[i].class) != 0)
            k++;
        if (k == to->count)
            zt_vec_push(to, (struct class_row){ .name = m->at[i].class });
        to->at[k].sums.params += m->at[i].params;
        to->at[k].sums.macs += m->at[i].macs;
        to->at[k].sums.seconds += m->at[i].seconds;
    }
}

static const char *measure_text(char text[48], double value, enum measure which) {
    char number[32];
    if (which == SECONDS)
        snprintf(text, 48, "%s", duration(number, value));
    else
        snprintf(text, 48, "%s%s", with_unit(number, value, which == PARAMS), which == MACS ? "MACs" : "");
    return text;
}

/* Writes the `most` largest classes as a dictionary; ties keep their order. */
static void write_top(const class_rows *rows, enum measure which, int most, FILE *to) {
    static const char *const names[MEASURES] = { "params     ", "MACs       ", "fwd latency" };
    bool *taken = zt_calloc((size_t)rows->count + 1, sizeof *taken);
    fprintf(to, "    %s - {", names[which]);
    for (int n = 0; n < most && n < rows->count; n++) {
        int best = -1;
        char text[48];
        for (int i = 0; i < rows->count; i++)
            if (!taken[i] &&
                (best < 0 || measure_of(&rows->at[i].sums, which) > measure_of(&rows->at[best].sums, which)))
                best = i;
        taken[best] = true;
        fputs(n ? ", '" : "'", to);
        zt_show_print(to, rows->at[best].name);
        fprintf(to, "': '%s'", measure_text(text, measure_of(&rows->at[best].sums, which), which));
    }
    fputs("}\n", to);
    free(taken);
}

static void write_aggregated(const struct stage *s, FILE *to) {
    const struct zt_flops_config *c = &s->report->plan->job->config->flops;
    const int deepest =
        c->module_depth < 0 || c->module_depth > s->modules.deepest ? s->modules.deepest : c->module_depth;
    class_rows rows = { 0 };
    fprintf(to,
            "----------------------------- Aggregated Profile per GPU -----------------------------\n"
            "Top %d modules in terms of params, MACs or fwd latency at different model depths:\n",
            c->top_modules);
    for (int depth = 0; depth <= deepest; depth++) {
        list_classes(&s->modules, depth, &rows);
        fprintf(to, "depth %d:\n", depth);
        for (enum measure which = 0; which < MEASURES; which++)
            write_top(&rows, which, c->top_modules, to);
    }
    fputc('\n', to);
    zt_vec_finish(&rows);
}

static void write_module(const struct stage *s, int at, FILE *to) {
    const struct zt_module *m = &s->modules.at[at], *root = &s->modules.at[0];
    char params[48], macs[48], seconds[48], rate[32];
    fprintf(to, "%*s", 2 * m->depth, "");
    if (at) {
        fputc('(', to);
        zt_show_print(to, m->name);
        fputs("): ", to);
    }
    zt_show_print(to, m->class);
    fprintf(to, "  %s = %.2f%% Params, %s = %.2f%% MACs, %s = %.2f%% latency, %sFLOPS\n",
            measure_text(params, m->params, PARAMS), share(m->params, root->params), measure_text(macs, m->macs, MACS),
            share(m->macs, root->macs), measure_text(seconds, m->seconds, SECONDS), share(m->seconds, root->seconds),
            with_unit(rate, per_second(m->flops, m->seconds), false));
    for (int i = m->first; i >= 0; i = s->modules.at[i].next)
        write_module(s, i, to);
}

static void write_detailed(const struct stage *s, FILE *to) {
    fputs(
        "------------------------------ Detailed Profile per GPU ------------------------------\n"
        "Each module: params, share of all params, MACs, share of all MACs, fwd latency, share of the fwd latency of "
        "all\n"
        "nodes, fwd FLOPS. A module contains its submodules and nodes of its own, which are not listed.\n\n",
        to);
    write_module(s, 0, to);
    fputc('\n', to);
}

/* ---- operators ---- */

static int by_time(const void *a, const void *b) {
    const struct op_row *x = a, *y = b;
    if (x->backward != y->backward)
        return x->backward - y->backward;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static void write_ops(const struct stage *s, FILE *to) {
    const double peak = peak_of(s->report->plan);
    qsort(s->ops.at, (size_t)s->ops.count, sizeof *s->ops.at, by_time);
    fprintf(to,
            "--------------------------------- Operators per GPU ---------------------------------\n"
            "%-10s %-28s %6s %14s %14s %12s %14s %9s\n",
            "phase", "operator", "nodes", "MACs", "flops", "latency", "FLOPS", "of peak");
    for (int i = 0; i < s->ops.count; i++) {
        const struct op_row *r = &s->ops.at[i];
        char macs[32], flops[32], latency[32], rate[32], name[128];
        const double achieved = per_second(r->flops, r->seconds);
        fprintf(to, "%-10s %-28s %6d %14s %14s %12s %14s %7.2f %%\n", r->backward ? "backward" : "forward",
                zt_show(name, sizeof name, r->op), r->nodes, with_unit(macs, r->macs, false),
                with_unit(flops, r->flops, false), duration(latency, r->seconds), with_unit(rate, achieved, false),
                share(achieved, peak));
    }
    fputc('\n', to);
}

/* ---- the report ---- */

static void write_head(const struct zt_flops_report *report, FILE *to) {
    fprintf(
        to,
        "\n-------------------------- DeepSpeed Flops Profiler --------------------------\n"
        "Profile Summary at step %lld:\n"
        "Notations:\n"
        "data parallel size (dp_size), model parallel size (mp_size), number of parameters (params), number of\n"
        "multiply-accumulate operations (MACs), number of floating-point operations (flops), floating-point\n"
        "operations per second (FLOPS), fwd latency (forward propagation latency), bwd latency (backward\n"
        "propagation latency), step (weights update latency), iter latency (latency of the whole step). GPU: a rank\n"
        "and its device. Norms count 4 flops per element (batch norm with running statistics 1), one more with a "
        "scale;\n"
        "pools count one per input element; all other operators that are no products or sums one per output "
        "element.\n\n",
        (long long)report->step);
}

static void write_stage(const struct zt_flops_report *report, int at, FILE *to) {
    const struct zt_plan *plan = report->plan;
    struct stage s = { .report = report,
                       .plan = plan->stage[at],
                       .times = report->times ? report->times[at] : NULL,
                       .latency = report->latency[at] };
    if (!s.plan->programs.train.count)
        return;
    zt_modules_init(&s.modules, plan->job->model);
    count(&s);
    if (plan->grid.stages > 1)
        fprintf(to, "Stage %d of %d\n\n", at, plan->grid.stages);
    write_sizes(&s, to);
    write_forward(&s, to);
    write_backward(&s, to);
    write_step(&s, to);
    write_counted(&s, to);
    write_aggregated(&s, to);
    if (plan->job->config->flops.detailed)
        write_detailed(&s, to);
    write_ops(&s, to);
    zt_vec_finish(&s.ops);
    zt_modules_finish(&s.modules);
}

char *zt_flops_text(const struct zt_flops_report *report, struct zt_err *err) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) {
        zt_fail(err, ZT_EXIT_RUN, "out of memory");
        return NULL;
    }
    write_head(report, to);
    for (int s = 0; s < report->plan->grid.stages; s++)
        write_stage(report, s, to);
    fputs("------------------------------------------------------------------------------\n", to);
    fclose(to);
    return text;
}
