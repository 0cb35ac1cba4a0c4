#include "plan/profile.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/show.h"
#include "base/text.h"
#include "base/vec.h"
#include "graph/ir/op.h"

#include <stdlib.h>
#include <string.h>

/* A node, or another part of the step (graph is NULL). */
struct row {
    int stage, node, runs;
    const char *phase;
    const struct zt_graph *graph;
    const struct zt_path *path;
    double flops, macs, bytes, estimated, measured; /* of one run; negative seconds: unknown */
};
typedef ZT_VEC(struct row) rows;

/* ---- the rows ---- */

static double measured(const struct zt_profile *p, int stage, int entry) {
    return p->times ? p->times[stage][entry] : -1;
}

/* The commands of a phase. */
struct phase {
    const char *name;
    const struct zt_command *at;
    int count, runs;
};

static void add_nodes(const struct zt_profile *p, int stage, struct phase phase, rows *to) {
    const struct zt_program *program = p->plan->stage[stage]->programs.train.at[0];
    const struct zt_graph *g = program->training_graph.graph;
    for (int i = 0; i < phase.count; i++)
        if (phase.at[i].kind == ZT_RUN_NODE) {
            const int n = phase.at[i].node;
            zt_vec_push(to, (struct row){ .stage = stage,
                                          .node = n,
                                          .runs = phase.runs,
                                          .phase = phase.name,
                                          .graph = g,
                                          .path = &program->prepared[n].path,
                                          .flops = zt_op_flops(g, n),
                                          .macs = zt_op_macs(g, n),
                                          .bytes = zt_cost_bytes(g, n),
                                          .estimated = zt_cost_node(&p->plan->machine, g, n),
                                          .measured = measured(p, stage, ZT_PARTS + n) });
        }
}

static void add_part(const struct zt_profile *p, int stage, enum zt_part part, int runs, rows *to) {
    static const char *const names[ZT_PARTS] = {
        [ZT_PART_LOAD] = "load", [ZT_PART_NORM] = "norm", [ZT_PART_UPDATE] = "update"
    };
    static const struct zt_path none = { 0 };
    const struct zt_stage_cost *c = &p->plan->cost[stage];
    const double estimated[ZT_PARTS] = { c->load_seconds, c->norm_seconds, c->update_seconds };
    zt_vec_push(to, (struct row){ .stage = stage,
                                  .runs = runs,
                                  .phase = names[part],
                                  .path = &none,
                                  .estimated = estimated[part],
                                  .measured = measured(p, stage, part) });
}

static void list_rows(const struct zt_profile *p, rows *to) {
    for (int s = 0; s < p->plan->grid.stages; s++) {
        const struct zt_rank_plan *r = p->plan->stage[s];
        const struct zt_program *program = r->programs.train.count ? r->programs.train.at[0] : NULL;
        if (!program)
            continue;
        const int runs = r->steps.full.micro_batches;
        add_part(p, s, ZT_PART_LOAD, runs, to);
        add_nodes(p, s, (struct phase){ "derive", program->derive, program->derive_count, 1 }, to);
        add_nodes(p, s, (struct phase){ "forward", program->forward, program->forward_count, runs }, to);
        add_nodes(p, s, (struct phase){ "backward", program->backward, program->backward_count, runs }, to);
        add_part(p, s, ZT_PART_NORM, 1, to);
        add_part(p, s, ZT_PART_UPDATE, 1, to);
    }
}

static const char *type_of(const struct row *r) {
    const struct zt_value *v = r->graph ? zt_in(r->graph, r->node, 0) : NULL;
    return v ? zt_dtype_name(v->dtype) : "-";
}

static const char *backend_of(const struct row *r) {
    static const char *const names[ZT_BACKENDS] = { "ref", "cpu", "cuda" };
    return r->graph ? names[r->graph->nodes[r->node]->backend] : "-";
}

static const char *or_dash(const char *text) {
    return text ? text : "-";
}

/* ---- as a file ---- */

static void write_seconds(double seconds, FILE *to) {
    if (seconds < 0)
        fputs("\t-", to);
    else
        fprintf(to, "\t%.3f", 1e6 * seconds);
}

static void write_row(const struct row *r, FILE *to) {
    const struct zt_node *n = r->graph ? r->graph->nodes[r->node] : NULL;
    fprintf(to, "%d\t%s\t", r->stage, r->phase);
    zt_show_print(to, n ? n->name : "-");
    fprintf(to, "\t%s\t%s\t%s\t%s\t%s\t%d\t%.0f\t%.0f\t%.0f", n ? n->op_type : "-", type_of(r), backend_of(r),
            or_dash(r->path->name), or_dash(r->path->note), r->runs, r->flops, r->macs, r->bytes);
    write_seconds(r->estimated, to);
    write_seconds(r->measured, to);
    fputc('\n', to);
}

bool zt_profile_write(const struct zt_profile *p, const char *path, struct zt_err *err) {
    struct zt_file_out out;
    rows all = { 0 };
    if (!zt_file_out_open(&out, path, err))
        return false;
    list_rows(p, &all);
    fputs("stage\tphase\tnode\top\ttype\tbackend\tpath\tnote\truns\tflops\tmacs\tbytes\testimated_us\tmeasured_us\n",
          out.stream);
    for (int i = 0; i < all.count; i++)
        write_row(&all.at[i], out.stream);
    zt_vec_finish(&all);
    return zt_file_out_commit(&out, err);
}

/* ---- on the console ---- */

enum { SHOWN = 20 };

static double in_step(const struct row *r) {
    return r->measured > 0 ? r->measured * r->runs : 0;
}

static int by_time(const void *a, const void *b) {
    const double x = in_step(a), y = in_step(b);
    return (x < y) - (x > y);
}

/* Prints GFLOP/s if arithmetic limits the node, otherwise GB/s. */
static void say_row(const struct zt_profile *p, const struct row *r, const struct zt_log *log) {
    char rate[32] = "", peak[16] = "";
    const bool computes = r->graph && r->graph->nodes[r->node]->op->flops;
    if (r->graph && r->measured > 0) {
        snprintf(rate, sizeof rate, "%.4g %s", 1e-9 * (computes ? r->flops : r->bytes) / r->measured,
                 computes ? "GFLOP/s" : "GB/s");
        snprintf(peak, sizeof peak, "%.0f %%", 100 * zt_cost_floor(&p->plan->machine, r->graph, r->node) / r->measured);
    }
    zt_say(log, ZT_LOG_INFO, "%10.3f %6.1f %% %15s %7s  %-4s %-11s %-9s %-22s %s", 1e3 * in_step(r),
           100 * in_step(r) / p->step_seconds, rate, peak, backend_of(r), or_dash(r->path->name), type_of(r),
           r->graph ? r->graph->nodes[r->node]->op_type : r->phase, r->graph ? r->graph->nodes[r->node]->name : "-");
}

void zt_profile_say(const struct zt_profile *p, const struct zt_log *log) {
    rows all = { 0 };
    double sum = 0, rest = 0;
    list_rows(p, &all);
    for (int i = 0; i < all.count; i++)
        sum += in_step(&all.at[i]);
    qsort(all.at, (size_t)all.count, sizeof *all.at, by_time);
    zt_say(log, ZT_LOG_INFO, "Profile: step %.3f ms, %d nodes and parts %.3f ms (%.0f %%)%s", 1e3 * p->step_seconds,
           all.count, 1e3 * sum, 100 * sum / p->step_seconds,
           p->plan->grid.stages > 1 ? "; stages run concurrently" : "");
    zt_say(log, ZT_LOG_INFO, "%10s %8s %15s %7s  %-4s %-11s %-9s %-22s %s", "ms a step", "of it", "rate", "of peak",
           "on", "by", "type", "op", "node");
    for (int i = 0; i < all.count; i++) {
        if (i < SHOWN)
            say_row(p, &all.at[i], log);
        else
            rest += in_step(&all.at[i]);
    }
    if (all.count > SHOWN)
        zt_say(log, ZT_LOG_INFO, "%10.3f %6.1f %%  %d others", 1e3 * rest, 100 * rest / p->step_seconds,
               all.count - SHOWN);
    zt_vec_finish(&all);
}
