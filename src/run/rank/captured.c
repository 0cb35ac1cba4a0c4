/* Capture of the device work of a step.
 *
 * A rank queues the same work in every step of one shape (full steps, or the last step of an epoch) whose batches are
 * on the same side (device_memory.h): the pointers into its blocks are equal, and changing numbers are stored on the
 * device. The first step of a shape therefore runs without capture, the first later step of each side is captured, and
 * the other steps replay the captured segments:
 *
 *     step   side   load   forward ... backward   exchange with ranks   norm update        copy of the state
 *     1      0      +      + + + + + + + + + +    +                     + +                +
 *     2      1      +      ( . . . . . . . . .    ) graph 0  +          ( . ) graph 1      +
 *     3      0      +      ( . . . . . . . . .    ) graph 0' +          ( . ) graph 1'     +
 *     4      1      +      graph 0                +                     graph 1            +
 *     5      0      +      graph 0'               +                     graph 1'           +
 *
 * Segments end where the device needs the host: at batches, other ranks, nodes without a kernel on the device, the
 * micro-batch for random numbers, and kernels that reduce over ranks. From step 4 on the host runs the same program
 * and counts its actions instead of queueing them; a segment of another length is an internal error.
 *
 * If a segment cannot be captured, its actions, which were stored, are queued one by one, and capture is disabled. */
#include "run/rank/captured.h"

#include "base/vec.h"
#include "run/rank/times.h"
#include "run/timers/timers.h"

#include <stdlib.h>

struct segment {
    struct zt_captured *graph;
    int actions;
};

typedef ZT_VEC(struct segment) segments;
typedef ZT_VEC(struct zt_action) actions;

enum mode { PLAIN, RECORD, REPLAY };

/* The captured segments of steps with one shape and side. */
struct recording {
    segments list;
    size_t launches; /* kernels, copies and fills in the segments */
    bool made;
};

struct zt_rank_graphs {
    enum mode mode;
    /* Shape: tail, and whether gradients are reduced, which 1-bit optimizers do in some steps only. */
    struct recording of[4][2], *now; /* [shape][side] */
    bool ran[4];                     /* by shape: whether a step has run without capture */
    int at;                          /* index of the current or next segment */
    int count;                       /* number of its actions so far; 0: no open segment */
    actions pending;                 /* actions of the segment that is being captured */
    bool off;
    char why[ZT_ERR_TEXT];
};

static const struct zt_device_api *api_of(const struct zt_rank *r) {
    return r->device->api;
}

void zt_rank_graphs_create(struct zt_rank *r) {
    if (api_of(r)->capture)
        r->graphs = ZT_NEW(r->arena, struct zt_rank_graphs);
}

void zt_rank_graphs_destroy(struct zt_rank *r) {
    struct zt_rank_graphs *g = r->graphs;
    for (int s = 0; g && s < 8; s++) {
        segments *list = &g->of[s / 2][s % 2].list;
        for (int i = 0; i < list->count; i++)
            api_of(r)->captured_destroy(r->device, list->at[i].graph);
        zt_vec_finish(list);
    }
    if (g)
        zt_vec_finish(&g->pending);
}

/* ---- segments ---- */

static bool queue_pending(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_graphs *g = r->graphs;
    bool ok = true;
    for (int i = 0; ok && i < g->pending.count; i++)
        ok = g->pending.at[i].run(r, &g->pending.at[i], err);
    g->pending.count = 0;
    return ok;
}

static bool give_up(struct zt_rank *r, const struct zt_err *why, struct zt_err *err) {
    struct zt_rank_graphs *g = r->graphs;
    g->off = true;
    g->mode = PLAIN;
    g->count = 0;
    snprintf(g->why, sizeof g->why, "%s", why->count ? why->text[0] : "the device captured nothing");
    return queue_pending(r, err);
}

static bool end_capture(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_graphs *g = r->graphs;
    struct zt_err why = { 0 };
    size_t launches = 0;
    struct segment s = { api_of(r)->captured(r->device, &launches, &why), g->pending.count };
    if (!s.graph)
        return give_up(r, &why, err);
    g->now->launches += launches;
    zt_vec_push(&g->now->list, s);
    g->pending.count = 0;
    return api_of(r)->replay(r->device, s.graph, err);
}

static bool record(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    struct zt_rank_graphs *g = r->graphs;
    struct zt_err why = { 0 };
    if (!g->count && !api_of(r)->capture(r->device, &why))
        return give_up(r, &why, err) && a->run(r, a, err);
    g->count++;
    zt_vec_push(&g->pending, *a);
    if (a->run(r, a, &why))
        return true;
    struct zt_err ignored = { 0 };
    size_t launches;
    struct zt_captured *broken = api_of(r)->captured(r->device, &launches, &ignored);
    if (broken)
        api_of(r)->captured_destroy(r->device, broken);
    return give_up(r, &why, err);
}

static bool replay(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_graphs *g = r->graphs;
    if (g->at >= g->now->list.count)
        return zt_fail(err, ZT_EXIT_RUN, "segment %d of the step was not recorded", g->at);
    return g->count++ || api_of(r)->replay(r->device, g->now->list.at[g->at].graph, err);
}

bool zt_rank_do(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    if (!r->graphs || r->graphs->mode == PLAIN)
        return a->run(r, a, err);
    return r->graphs->mode == RECORD ? record(r, a, err) : replay(r, err);
}

bool zt_rank_capturing(const struct zt_rank *r) {
    return r->graphs && r->graphs->mode == RECORD && r->graphs->count;
}

bool zt_rank_flush(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_graphs *g = r->graphs;
    if (!g || !g->count)
        return true;
    int count = g->count;
    g->count = 0;
    g->at++;
    if (g->mode == RECORD)
        return end_capture(r, err);
    int wants = g->now->list.at[g->at - 1].actions;
    return count == wants || zt_fail(err, ZT_EXIT_RUN, "segment %d of the step has %d actions, %d were recorded",
                                     g->at - 1, count, wants);
}

/* ---- steps ---- */

void zt_rank_graphs_begin(struct zt_rank *r, enum zt_step_kind kind, int side) {
    struct zt_rank_graphs *g = r->graphs;
    /* hashing and tracing read intermediate values, and a captured segment gives no times of its nodes */
    if (!g || g->off || kind == ZT_STEP_MIXED || r->hashes || r->tracing || zt_rank_times_on(r) ||
        zt_timers_on(r->timers))
        return;
    const int shape = (kind == ZT_STEP_TAIL) + (!r->sharing.reduced && r->data->size > 1 ? 2 : 0);
    g->now = &g->of[shape][side];
    g->at = g->count = 0;
    g->mode = !g->ran[shape] ? PLAIN : !g->now->made ? RECORD : REPLAY;
    g->now->made |= g->ran[shape];
    g->ran[shape] = true;
}

bool zt_rank_graphs_end(struct zt_rank *r, struct zt_err *err) {
    bool ok = zt_rank_flush(r, err);
    if (r->graphs)
        r->graphs->mode = PLAIN;
    return ok;
}

/* Returns the recording of either side: both are equal. */
static const struct recording *recording_of(const struct zt_rank_graphs *g, bool tail) {
    return &g->of[tail][!g->of[tail][0].made];
}

void zt_rank_graphs_say(const struct zt_rank *r, const struct zt_log *log) {
    const struct zt_rank_graphs *g = r->graphs;
    if (g && g->off)
        zt_say(log, ZT_LOG_DEBUG, "captured segments: none: %s", g->why);
    else if (g)
        zt_say(log, ZT_LOG_DEBUG,
               "captured segments: %d in a full step, %d in the last of an epoch; %zu and %zu launches",
               recording_of(g, false)->list.count, recording_of(g, true)->list.count, recording_of(g, false)->launches,
               recording_of(g, true)->launches);
}
