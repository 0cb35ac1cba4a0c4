#include "report/segment_times.h"

#include "base/map.h"
#include "base/text.h"
#include "parallel/schedule/program.h"

#include <string.h>

#define CLONE "again: " /* in front of a recomputed node's name (graph/passes/recompute/apply_choice.c) */

static double seconds_of(const double *times, int node) {
    return times[ZT_PARTS + node] > 0 ? times[ZT_PARTS + node] : 0;
}

/* The forward nodes of a segment are those from its first to its last; its clones have their names. */
static void say_segment(const struct zt_program *p, const struct zt_segment *s, const struct zt_map *forward,
                        const double *times, const char *title, const struct zt_log *log) {
    const struct zt_graph *g = p->training_graph.graph;
    const int first = zt_map_get(forward, s->first, -1), last = zt_map_get(forward, s->last, -1);
    double once = 0, again = 0;
    char bytes[32];
    for (int n = 0; n < g->node_count; n++) {
        const bool clone = strncmp(g->nodes[n]->name, CLONE, sizeof CLONE - 1) == 0;
        const int at = zt_map_get(forward, g->nodes[n]->name + (clone ? sizeof CLONE - 1 : 0), -1);
        if (at < 0 || at < first || at > last)
            continue;
        *(clone ? &again : &once) += seconds_of(times, n);
    }
    zt_say(log, ZT_LOG_INFO, "%s | nodes: %d, %s to %s | forward: %.3f ms | recompute: %.3f ms | %s not kept", title,
           s->nodes, s->first, s->last, 1e3 * once, 1e3 * again, zt_format_bytes(bytes, (double)s->bytes));
}

static void say_stage(const struct zt_program *p, int stage, const double *times, const struct zt_log *log) {
    const struct zt_graph *g = p->training_graph.graph;
    struct zt_map forward = { 0 };
    for (int n = 0; n < g->node_count; n++)
        if (g->nodes[n]->phase == ZT_FORWARD)
            zt_map_put(&forward, g->nodes[n]->name, n);
    for (int i = 0; i < p->recomputed.count; i++) {
        char title[64];
        snprintf(title, sizeof title, "stage %d, segment %d", stage, i);
        say_segment(p, &p->recomputed.at[i], &forward, times, title, log);
    }
    zt_map_finish(&forward);
}

void zt_segments_say(const struct zt_plan *plan, const double *const *times, int64_t step, const struct zt_log *log) {
    int count = 0;
    for (int s = 0; s < plan->grid.stages; s++)
        count += plan->stage[s]->programs.train.count ? plan->stage[s]->programs.train.at[0]->recomputed.count : 0;
    zt_say(log, ZT_LOG_INFO, "Activation checkpointing: %d recomputed segments, times of a micro-batch of step %lld",
           count, (long long)step);
    for (int s = 0; s < plan->grid.stages; s++)
        if (plan->stage[s]->programs.train.count)
            say_stage(plan->stage[s]->programs.train.at[0], s, times[s], log);
}
