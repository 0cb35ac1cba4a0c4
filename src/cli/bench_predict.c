/* What the plan says of one combination. */
#include "cli/bench.h"
#include "device/threads.h"
#include "train.h"

#include <stdlib.h>
#include <string.h>

/* What rank `me` sends of bucket `b` in half an all-reduce: in a reduce-scatter every slice but its own, in an
 * all-gather its own to every other rank; on average the same, (n - 1) / n of the bucket. */
static double half(const struct zt_flat *flat, int b) {
    double bytes = (double)(flat->bucket[b + 1] - flat->bucket[b]) * sizeof(float);
    return bytes * (flat->ranks - 1) / flat->ranks;
}

static double sent_by(const struct zt_flat *flat, const struct zt_command *at, int count, int micro_batches) {
    double bytes = 0;
    for (int i = 0; i < count; i++) {
        if (at[i].kind == ZT_GATHER)
            bytes += half(flat, at[i].bucket) * micro_batches;
        else if (at[i].kind == ZT_REDUCE)
            bytes += half(flat, at[i].bucket) * (at[i].all ? 2 : 1) * (at[i].last_only ? 1 : micro_batches);
    }
    return bytes;
}

static double crossing(const struct zt_crossings *list, int micro_batches) {
    double bytes = 0;
    for (int i = 0; i < list->count; i++)
        bytes += (double)list->at[i].bytes * micro_batches;
    return bytes;
}

static double sent_in_a_step(const struct zt_rank_plan *plan, struct zt_command *room) {
    const struct zt_program *p = NULL;
    for (int i = 0; i < plan->train.count; i++)
        if (plan->train.at[i]->joint.rows == plan->full.rows)
            p = plan->train.at[i];
    int micro_batches = plan->full.micro_batches;
    if (!p)
        return 0;
    return sent_by(plan->flat, p->forward, p->forward_count, micro_batches) +
           sent_by(plan->flat, p->backward, p->backward_count, micro_batches) +
           sent_by(plan->flat, room, zt_hooks_after_step(plan->flat, plan->sharding, room), 1) +
           crossing(&p->send_act, micro_batches) + crossing(&p->send_grad, micro_batches);
}

static bool take_rank(struct zt_session *s, int rank, struct zt_bench_row *row, struct zt_err *err) {
    struct zt_device *device = zt_device_host_create(zt_session_threads(s));
    struct zt_rank_options options = {
        .source = s->source, .eval_source = s->eval_source, .rank = rank, .device = device, .threads = device->threads
    };
    struct zt_rank_plan *plan = zt_rank_plan_create(s->job, &options, err);
    if (plan) {
        struct zt_arena *arena = zt_arena_create();
        int64_t bytes = plan->parameter_bytes + plan->derived_bytes + plan->gradient_bytes + plan->optimizer_bytes +
                        plan->activation_bytes + plan->workspace_bytes;
        double sent = sent_in_a_step(plan, ZT_NEW_N(arena, struct zt_command, plan->flat->bucket_count + 1));
        int stages = plan->grid.stages;
        row->predicted_bytes = bytes > row->predicted_bytes ? bytes : row->predicted_bytes;
        row->sent_bytes = sent > row->sent_bytes ? sent : row->sent_bytes;
        row->bubble = (double)(stages - 1) / (plan->full.micro_batches + stages - 1); /* parallel/schedule.h */
        zt_arena_destroy(arena);
    }
    zt_rank_plan_destroy(plan);
    device->api->destroy(device);
    return plan != NULL;
}

void zt_bench_predict(const struct zt_bench *bench, struct zt_bench_row *row) {
    struct zt_options options;
    struct zt_session s;
    struct zt_err err = { 0 };
    char batch[ZT_BENCH_WORD];
    const char **set = zt_calloc((size_t)(bench->options->over.set_count + ZT_BENCH_EXTRA_SETS), sizeof *set);
    zt_bench_overlay(bench, row, &options, set, batch);
    bool ok = zt_session_open(&s, &options, ZT_WEIGHTS_ABSENT_OK, ZT_DATA_TRAIN | ZT_DATA_EVAL, &err) &&
              zt_session_alone(&s, &err);
    if (ok) {
        row->batch = s.config->train_batch;
        row->micro_batch = s.config->micro_batch;
        row->accumulation = s.config->accumulation;
    }
    for (int rank = 0; ok && rank < row->ranks; rank++)
        ok = take_rank(&s, rank, row, &err);
    if (!ok)
        snprintf(row->reason, sizeof row->reason, "%s", err.text[0]);
    zt_session_finish(&s);
    free(set);
}
