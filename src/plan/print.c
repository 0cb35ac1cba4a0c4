/* plan.txt: groups of equal ranks, then each stage. */
#include "plan/print.h"

#include "plan/compressed.h"
#include "plan/deepspeed_estimates.h"
#include "plan/file_work.h"
#include "plan/kernel_paths.h"
#include "plan/rank_print.h"

#include "base/show.h"
#include "base/text.h"

#include <string.h>

static void print_head(const struct zt_plan *plan, FILE *to) {
    const struct zt_config *c = plan->job->config;
    const struct zt_rank_plan *p = plan->stage[0];
    char mode[120];
    fprintf(to, "plan %016llx\n%s", (unsigned long long)plan->hash, plan->job->chosen ? plan->job->chosen : "");
    fprintf(to, "%s, %d rank%s = %d stage%s x %d data-parallel rank%s, on %s\n",
            zt_rank_plan_mode(p, mode, sizeof mode), plan->grid.world, zt_plural(plan->grid.world), plan->grid.stages,
            zt_plural(plan->grid.stages), plan->grid.data, zt_plural(plan->grid.data), plan->machine.name);
    fprintf(to, "step: %lld samples = %lld per micro-batch x %lld micro-batch%s x %d rank%s\n",
            (long long)c->train_batch, (long long)c->micro_batch, (long long)c->accumulation,
            c->accumulation == 1 ? "" : "es", plan->grid.data, zt_plural(plan->grid.data));
    if (p->steps.tail.samples)
        fprintf(to, "last step of an epoch: %lld samples\n", (long long)p->steps.tail.samples);
    if (p->steps.short_rows)
        fprintf(to, "last micro-batch of an epoch: %lld samples\n", (long long)p->steps.short_rows);
}

enum { SHOWN_KINDS = 4 };

/* Counts the groups of consecutive ranks of the stage with equal memory. */
static int count_kinds(const struct zt_plan *plan, int stage) {
    struct zt_rank_bytes before = zt_plan_bytes(plan, stage, 0);
    int kinds = 1;
    for (int r = 1; r < plan->grid.data; r++) {
        struct zt_rank_bytes b = zt_plan_bytes(plan, stage, r);
        kinds += memcmp(&b, &before, sizeof b) != 0;
        before = b;
    }
    return kinds;
}

/* Prints one row for ranks of a stage with equal slices. If the sizes vary too much, prints one row for the largest
 * rank. */
static void print_bytes(const struct zt_plan *plan, FILE *to) {
    fprintf(to, "\nbytes per rank %14s %14s %14s %14s %14s %14s\n", "parameters", "gradients", "optimizer",
            "activations", "workspace", "all");
    for (int s = 0; s < plan->grid.stages; s++) {
        bool many = count_kinds(plan, s) > SHOWN_KINDS;
        for (int first = 0, next; first < plan->grid.data; first = next) {
            struct zt_rank_bytes b = zt_plan_bytes(plan, s, first);
            char ranks[48];
            if (many)
                b = zt_plan_bytes(plan, s, zt_rank_plan_largest(plan->stage[s]));
            for (next = first + 1; next < plan->grid.data; next++) {
                struct zt_rank_bytes other = zt_plan_bytes(plan, s, next);
                if (!many && memcmp(&b, &other, sizeof b) != 0)
                    break;
            }
            int from = zt_grid_rank(&plan->grid, s, first), last = from + next - first - 1;
            snprintf(ranks, sizeof ranks, from == last ? "rank %d" : "ranks %d-%d", from, last);
            fprintf(to, "%-14s %14lld %14lld %14lld %14lld %14lld %14lld%s\n", ranks, (long long)b.parameters,
                    (long long)b.gradients, (long long)b.optimizer, (long long)b.activations, (long long)b.workspace,
                    (long long)zt_rank_bytes_total(&b), many ? "  at most" : "");
            if (b.host || b.nvme)
                fprintf(to, "  offloaded: host memory %lld, NVMe %lld\n", (long long)b.host, (long long)b.nvme);
        }
    }
    fputs(
        "parameters: weights, statistics, packed copies; activations: peak of a micro-batch x micro-batches in "
        "flight, with gathered\nand unreduced buckets. The process itself (code, libraries, input buffers) needs "
        "additional memory.\n",
        to);
    if (plan->machine.memory_bytes)
        fprintf(to, "the largest rank uses %.1f %% of the %.0f GB of its device\n",
                100.0 * (double)zt_plan_most_bytes(plan) / (double)plan->machine.memory_bytes,
                (double)plan->machine.memory_bytes / 1e9);
}

static double total(const struct zt_spans *spans, enum zt_span_kind kind) {
    double seconds = 0;
    for (int i = 0; i < spans->count; i++)
        seconds += spans->at[i].kind == kind ? spans->at[i].seconds : 0;
    return seconds;
}

static void print_prediction(const struct zt_plan *plan, FILE *to) {
    if (!plan->timeline.count)
        return;
    fprintf(to, "\npredicted, ms %10s %10s %10s %10s %10s %10s   %s\n", "forward", "backward", "gather", "reduce",
            "send", "update", "sent per step and rank: gather, reduce, stages");
    for (int s = 0; s < plan->grid.stages; s++) {
        const struct zt_stage_cost *c = &plan->cost[s];
        char t[3][32], stage[24];
        double gather = total(&c->forward, ZT_SPAN_GATHER) + total(&c->backward, ZT_SPAN_GATHER) +
                        total(&c->after_step, ZT_SPAN_GATHER);
        snprintf(stage, sizeof stage, "stage %d", s);
        fprintf(to, "%-13s %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f   %s, %s, %s\n", stage, 1e3 * c->forward_seconds,
                1e3 * c->backward_seconds, 1e3 * gather, 1e3 * total(&c->backward, ZT_SPAN_REDUCE),
                1e3 * (c->send_act_seconds + c->send_grad_seconds),
                1e3 * (c->norm_seconds + c->update_seconds + c->derive_seconds),
                zt_format_bytes(t[0], (double)c->gather_bytes), zt_format_bytes(t[1], (double)c->reduce_bytes),
                zt_format_bytes(t[2], (double)c->send_bytes));
    }
    double seconds = plan->timeline.seconds;
    fprintf(to, "predicted step %.3f ms, bubble %.1f %%, %.0f samples/s, %.3g FLOPs per step, %.3g FLOP/s per rank\n",
            1e3 * seconds, 100 * plan->timeline.bubble, (double)plan->stage[0]->steps.full.samples / seconds,
            zt_plan_flops(plan), zt_plan_flops(plan) / seconds / plan->grid.world);
}

enum { SHOWN_TENSORS = 8 };

static double bytes_of(const struct zt_boundary_tensors *tensors) {
    double bytes = 0;
    for (int i = 0; i < tensors->count; i++)
        bytes += (double)tensors->at[i].bytes;
    return bytes;
}

/* Prints the tensors that a stage receives from the stage before it, and the size of the gradients that go back. The
 * receiver knows them by their names in the model; the sender may have a copy in another layout. */
static void print_cut(const struct zt_program *p, FILE *to) {
    const struct zt_boundary_tensors *sent = &p->recv_act, *back = &p->send_grad;
    char text[2][32], name[ZT_ERR_TEXT], shape[ZT_SHAPE_TEXT];
    fprintf(to, "stage %d to %d: %d tensor%s, %s; back: %d gradient%s, %s\n", p->stage - 1, p->stage, sent->count,
            zt_plural(sent->count), zt_format_bytes(text[0], bytes_of(sent)), back->count, zt_plural(back->count),
            zt_format_bytes(text[1], bytes_of(back)));
    for (int i = 0; i < sent->count && i < SHOWN_TENSORS; i++) {
        const struct zt_value *v = p->training_graph.graph->values[sent->at[i].value];
        fprintf(to, "  %s: %s %s, %s\n", zt_show(name, sizeof name, v->name), zt_dtype_name(v->dtype),
                zt_shape_text(&v->shape, shape), zt_format_bytes(text[0], (double)sent->at[i].bytes));
    }
    if (sent->count > SHOWN_TENSORS)
        fprintf(to, "  and %d more\n", sent->count - SHOWN_TENSORS);
}

static void print_cuts(const struct zt_plan *plan, FILE *to) {
    if (plan->grid.stages > 1 && plan->stage[0]->programs.train.count)
        fputs("\nsent between stages per micro-batch\n", to);
    for (int s = 1; s < plan->grid.stages; s++)
        if (plan->stage[s]->programs.train.count)
            print_cut(plan->stage[s]->programs.train.at[0], to);
}

static void print_machine(const struct zt_machine *m, FILE *to) {
    fprintf(to,
            "\ncost model of a rank on %s: products %.4g, convolutions %.4g, half products %.4g, other %.4g, "
            "reference kernels %.4g FLOP/s at "
            "%g of these rates;\nmemory %.4g B/s, %.3g us per kernel; link %.4g B/s and %.3g us, network %.4g B/s and "
            "%.3g us",
            m->name, m->product_flops, m->conv_flops, m->half_flops, m->element_flops, m->plain_flops, m->efficiency,
            m->memory_rate, 1e6 * m->node_seconds, m->link_rate, 1e6 * m->link_seconds, m->net_rate,
            1e6 * m->net_seconds);
    if (m->send_rate > 0)
        fprintf(to, ", messages %.4g B/s and %.3g us", m->send_rate, 1e6 * m->send_seconds);
    fputc('\n', to);
}

static void print_paths(const struct zt_plan *plan, FILE *to) {
    struct zt_text paths = { 0 };
    if (plan->elsewhere)
        fputs(
            "kernels: unknown without the GPU and the CUDA module, which choose between cuDNN, cuBLASLt and our own "
            "kernels\n",
            to);
    for (int s = 0; s < plan->grid.stages; s++)
        if (plan->stage[s]->programs.train.count)
            zt_paths_list(plan->stage[s]->programs.train.at[0], &paths);
    if (paths.at)
        fprintf(to, "kernels: %s", paths.at);
    zt_text_finish(&paths);
}

void zt_plan_print(const struct zt_plan *plan, FILE *to) {
    print_head(plan, to);
    print_bytes(plan, to);
    print_prediction(plan, to);
    print_cuts(plan, to);
    zt_plan_print_files(plan, to);
    zt_compressed_print(plan->stage[0], to);
    print_machine(&plan->machine, to);
    print_paths(plan, to);
    zt_plan_print_estimate(plan, to);
    for (int s = 0; s < plan->grid.stages; s++) {
        if (plan->grid.stages > 1)
            fprintf(to, "\nstage %d, ranks %d-%d\n", s, zt_grid_rank(&plan->grid, s, 0),
                    zt_grid_rank(&plan->grid, s, plan->grid.data - 1));
        else
            fputc('\n', to);
        zt_rank_plan_print(plan->stage[s], to);
    }
}
