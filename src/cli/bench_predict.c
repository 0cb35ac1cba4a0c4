/* The plan of one combination. */
#include "cli/bench.h"
#include "device/threads.h"
#include "plan/open.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* Reads the results of a plan: the most bytes sent by a rank, the most memory of a rank, the simulated step. */
static void take(const struct zt_plan *plan, struct zt_bench_row *row) {
    row->predicted_bytes = zt_plan_most_bytes(plan);
    row->planned_seconds = plan->timeline.seconds;
    row->planned_bubble = plan->grid.stages > 1 ? plan->timeline.bubble : 0;
    for (int s = 0; plan->cost && s < plan->grid.stages; s++) {
        const struct zt_stage_cost *cost = &plan->cost[s];
        double sent = (double)(cost->gather_bytes + cost->reduce_bytes + cost->send_bytes);
        row->sent_bytes = sent > row->sent_bytes ? sent : row->sent_bytes;
    }
}

static bool plan(const struct zt_session *s, struct zt_bench_row *row, struct zt_err *err) {
    struct zt_machine machine;
    if (!zt_session_machine(s, NULL, &machine, err))
        return false;
    struct zt_device *device = zt_device_host_create(zt_session_threads(s));
    struct zt_plan_options options = { .source = s->source,
                                       .eval_source = s->eval_source,
                                       .device = device,
                                       .threads = device->threads,
                                       .machine = &machine,
                                       .elsewhere = zt_session_elsewhere(s) };
    struct zt_plan *made = zt_plan_create(s->job, &options, err);
    if (made)
        take(made, row);
    zt_plan_destroy(made);
    device->api->destroy(device);
    return made != NULL;
}

void zt_bench_predict(const struct zt_bench *bench, struct zt_bench_row *row) {
    struct zt_options options;
    struct zt_session s;
    struct zt_err err = { 0 };
    char batch[ZT_BENCH_WORD];
    const char **set = zt_calloc((size_t)(bench->options->over.set_count + ZT_BENCH_EXTRA_SETS), sizeof *set);
    zt_bench_overlay(bench, row, &options, set, batch);
    bool ok =
        zt_open(&s, &options, ZT_WEIGHTS_ABSENT_OK, ZT_DATA_TRAIN | ZT_DATA_EVAL, &err) && zt_session_alone(&s, &err);
    if (ok) {
        row->batch = s.config->train_batch;
        row->micro_batch = s.config->micro_batch;
        row->accumulation = s.config->accumulation;
    }
    if (!ok || !plan(&s, row, &err))
        zt_bench_refuse(row, err.code, err.text[0]);
    zt_open_finish(&s);
    free(set);
}
