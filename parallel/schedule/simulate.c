#include "parallel/schedule/simulate.h"

#include "base/vec.h"

#include <stdlib.h>

struct stage {
    const struct zt_schedule *schedule;
    const struct zt_stage_cost *cost;
    int at;               /* instruction that is next */
    double now;           /* when the stage is free for it */
    double work;          /* seconds of kernels and collectives until the last backward */
    double *acts, *grads; /* by micro-batch: when the message for this stage has arrived; < 0: not sent */
    double last_backward;
    double channel; /* when the stage's earlier collectives end */
    double *ends;   /* by kind (gather, reduce) and bucket: when the one that was begun last ends */
};

struct play {
    struct stage *stage;
    int stages, micro_batches;
    ZT_VEC(struct zt_event) events;
};

/* Adds an event of `seconds` starting now. `beside`: the stage continues meanwhile. */
static double add(struct play *p, int s, enum zt_event_kind kind, int micro_batch, double seconds, bool beside) {
    double start = p->stage[s].now, end = start + seconds;
    if (end > start)
        zt_vec_push(&p->events, (struct zt_event){ kind, s, micro_batch, start, end, beside });
    return end;
}

static void occupy(struct play *p, int s, enum zt_event_kind kind, int micro_batch, double seconds) {
    p->stage[s].now = add(p, s, kind, micro_batch, seconds, false);
}

/* A kernel or collective of a micro-batch, or of the step's end. */
static void work(struct play *p, int s, enum zt_event_kind kind, int micro_batch, double seconds) {
    occupy(p, s, kind, micro_batch, seconds);
    p->stage[s].work += micro_batch >= 0 ? seconds : 0;
}

/* Collectives of a stage run one after the other, beside the kernels. */
static void begin(struct play *p, int s, const struct zt_span *span, int micro_batch) {
    struct stage *stage = &p->stage[s];
    bool gather = span->kind == ZT_SPAN_GATHER;
    double start = stage->channel > stage->now ? stage->channel : stage->now;
    stage->channel = start + span->seconds;
    stage->ends[(gather ? 0 : stage->cost->buckets) + span->bucket] = stage->channel;
    zt_vec_push(&p->events, (struct zt_event){ gather ? ZT_EVENT_GATHER : ZT_EVENT_REDUCE, s, micro_batch, start,
                                               stage->channel, true });
}

/* Seconds that the wait for a collective takes. */
static double wait_for(const struct stage *stage, const struct zt_span *span) {
    double end = stage->ends[(span->kind == ZT_SPAN_GATHERED ? 0 : stage->cost->buckets) + span->bucket];
    return end > stage->now ? end - stage->now : 0;
}

static void run(struct play *p, int s, const struct zt_spans *spans, enum zt_event_kind kind, int micro_batch) {
    struct stage *stage = &p->stage[s];
    for (int i = 0; i < spans->count; i++) {
        const struct zt_span *span = &spans->at[i];
        bool starts = span->kind == ZT_SPAN_GATHER || span->kind == ZT_SPAN_REDUCE;
        bool waits = span->kind == ZT_SPAN_GATHERED || span->kind == ZT_SPAN_REDUCED;
        if (span->last_only && micro_batch >= 0 && micro_batch < p->micro_batches - 1)
            continue;
        if (starts && stage->cost->own_channel && micro_batch >= 0) {
            begin(p, s, span, micro_batch);
            continue;
        }
        work(p, s,
             span->kind == ZT_SPAN_COMPUTE                                    ? kind
             : span->kind == ZT_SPAN_GATHER || span->kind == ZT_SPAN_GATHERED ? ZT_EVENT_GATHER
                                                                              : ZT_EVENT_REDUCE,
             micro_batch, waits ? wait_for(stage, span) : span->seconds);
    }
}

/* Whether the message was sent; then the stage receives it. */
static bool take(struct play *p, int s, const double *arrives, double seconds, int micro_batch) {
    struct stage *stage = &p->stage[s];
    if (arrives[micro_batch] < 0)
        return false;
    const double waits = arrives[micro_batch] > stage->now ? arrives[micro_batch] - stage->now : 0;
    const double takes = stage->cost->own_channel ? 0 : seconds / 2;
    if (waits + takes > 0)
        occupy(p, s, ZT_EVENT_RECV, micro_batch, waits + takes);
    return true;
}

/* Without a separate channel both the sending and the receiving rank copy the message. */
static void send(struct play *p, int s, double *arrives, double seconds, int micro_batch) {
    struct stage *stage = &p->stage[s];
    if (stage->cost->own_channel) {
        arrives[micro_batch] = add(p, s, ZT_EVENT_SEND, micro_batch, seconds, true);
        return;
    }
    occupy(p, s, ZT_EVENT_SEND, micro_batch, seconds / 2);
    arrives[micro_batch] = stage->now;
}

/* Executes an instruction. False: it must wait. */
static bool instruct(struct play *p, int s, const struct zt_instruction *i) {
    struct stage *stage = &p->stage[s];
    const struct zt_stage_cost *c = stage->cost;
    switch (i->op) {
    case ZT_DO_LOAD:
        stage->now += c->load_seconds; /* copies the data; reading ahead never delays it */
        return true;
    case ZT_DO_RECV_ACT:
        return take(p, s, stage->acts, stage[-1].cost->send_act_seconds, i->micro_batch);
    case ZT_DO_RECV_GRAD:
        return take(p, s, stage->grads, stage[1].cost->send_grad_seconds, i->micro_batch);
    case ZT_DO_SCATTER:
        occupy(p, s, ZT_EVENT_SEND, i->micro_batch, c->scatter_seconds);
        return true;
    case ZT_DO_GATHER_ACT:
        occupy(p, s, ZT_EVENT_RECV, i->micro_batch, c->gather_act_seconds);
        return true;
    case ZT_DO_SCATTER_GRAD:
        occupy(p, s, ZT_EVENT_SEND, i->micro_batch, c->scatter_grad_seconds);
        return true;
    case ZT_DO_FORWARD:
        if (i->chunk) /* mode dp: the loss */
            work(p, s, ZT_EVENT_FORWARD, i->micro_batch, c->loss_forward_seconds);
        else
            run(p, s, &c->forward, ZT_EVENT_FORWARD, i->micro_batch);
        return true;
    case ZT_DO_BACKWARD:
        if (i->chunk)
            work(p, s, ZT_EVENT_BACKWARD, i->micro_batch, c->loss_backward_seconds);
        else
            run(p, s, &c->backward, ZT_EVENT_BACKWARD, i->micro_batch);
        stage->last_backward = stage->now;
        return true;
    case ZT_DO_BACKWARD_INPUT:
    case ZT_DO_BACKWARD_WEIGHT:
        run(p, s, i->op == ZT_DO_BACKWARD_INPUT ? &c->backward_input : &c->backward_weight, ZT_EVENT_BACKWARD,
            i->micro_batch);
        stage->last_backward = stage->now;
        return true;
    case ZT_DO_SEND_ACT:
        send(p, s, p->stage[s + 1].acts, c->send_act_seconds, i->micro_batch);
        return true;
    case ZT_DO_SEND_GRAD:
        send(p, s, p->stage[s - 1].grads, c->send_grad_seconds, i->micro_batch);
        return true;
    case ZT_DO_STEP:
        occupy(p, s, ZT_EVENT_UPDATE, -1, c->update_seconds);
        return true;
    case ZT_DO_GATHER:
        run(p, s, &c->after_step, ZT_EVENT_UPDATE, -1);
        return true;
    default: /* the reduction stands behind backward, where collectives.c puts it */
        return true;
    }
}

/* All stages compute the norm before any stage updates its weights. */
static double meet(const struct play *p) {
    double last = 0;
    for (int s = 0; s < p->stages; s++)
        last = p->stage[s].now > last ? p->stage[s].now : last;
    return last;
}

static bool at_meeting(const struct stage *stage) {
    return stage->at < stage->schedule->count && stage->schedule->at[stage->at].op == ZT_DO_CLIP;
}

static bool play(struct play *p) {
    for (bool moved = true; moved;) {
        moved = false;
        bool all = true;
        for (int s = 0; s < p->stages; s++) {
            struct stage *stage = &p->stage[s];
            while (stage->at < stage->schedule->count && !at_meeting(stage) &&
                   instruct(p, s, &stage->schedule->at[stage->at])) {
                stage->at++;
                moved = true;
            }
            all &= at_meeting(stage);
        }
        for (int s = 0; all && s < p->stages; s++) {
            p->stage[s].at++;
            occupy(p, s, ZT_EVENT_UPDATE, -1, p->stage[s].cost->norm_seconds);
            moved = true;
        }
        double together = all ? meet(p) : 0;
        for (int s = 0; all && s < p->stages; s++)
            p->stage[s].now = together;
    }
    for (int s = 0; s < p->stages; s++)
        if (p->stage[s].at < p->stage[s].schedule->count)
            return false;
    return true;
}

static void finish(struct play *p, struct zt_arena *arena, struct zt_timeline *to) {
    double worked = 0, last = 0;
    *to = (struct zt_timeline){ .seconds = meet(p) };
    for (int s = 0; s < p->stages; s++) {
        worked += p->stage[s].work;
        last = p->stage[s].last_backward > last ? p->stage[s].last_backward : last;
    }
    to->bubble = last > 0 ? 1 - worked / (last * p->stages) : 0;
    to->count = p->events.count;
    to->at = zt_vec_copy(arena, &p->events);
}

bool zt_simulate(struct zt_arena *arena, const struct zt_simulation *of, struct zt_timeline *to, struct zt_err *err) {
    const int stages = of->stages, micro_batches = of->micro_batches;
    struct play p = { .stages = stages, .micro_batches = micro_batches };
    p.stage = zt_calloc((size_t)stages, sizeof *p.stage);
    double *arrivals = zt_malloc((size_t)stages * (size_t)micro_batches * 2 * sizeof *arrivals);
    for (size_t i = 0; i < (size_t)stages * (size_t)micro_batches * 2; i++)
        arrivals[i] = -1;
    int buckets = 0;
    for (int s = 0; s < stages; s++)
        buckets += 2 * of->costs[s].buckets;
    double *ends = zt_calloc((size_t)buckets + 1, sizeof *ends), *ends_at = ends;
    for (int s = 0; s < stages; s++) {
        double *own = arrivals + (size_t)s * (size_t)micro_batches * 2;
        p.stage[s] = (struct stage){ .schedule = &of->schedules[s],
                                     .cost = &of->costs[s],
                                     .acts = own,
                                     .grads = own + micro_batches,
                                     .ends = ends_at };
        ends_at += 2 * of->costs[s].buckets;
    }
    bool ok =
        play(&p) || zt_fail(err, ZT_EXIT_RUN, "deadlock: the instruction lists of the stages wait for each other");
    if (ok)
        finish(&p, arena, to);
    free(ends);
    free(arrivals);
    free(p.stage);
    zt_vec_finish(&p.events);
    return ok;
}

static const char *const names[ZT_EVENT_KINDS] = {
    [ZT_EVENT_FORWARD] = "forward", [ZT_EVENT_BACKWARD] = "backward", [ZT_EVENT_SEND] = "send",
    [ZT_EVENT_RECV] = "receive",    [ZT_EVENT_GATHER] = "gather",     [ZT_EVENT_REDUCE] = "reduce",
    [ZT_EVENT_UPDATE] = "update",
};

const char *zt_event_name(enum zt_event_kind kind) {
    return names[kind];
}
