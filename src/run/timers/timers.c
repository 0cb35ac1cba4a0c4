#include "run/timers/timers.h"

#include "base/clock.h"
#include "base/vec.h"

#include <stdlib.h>

/* A moment of the step: the clock on the host, an event on a device. */
struct moment {
    double at;
    struct zt_event *event;
};

/* A timer between two moments. */
struct span {
    int kind, micro_batch, from, to;
    bool part, host;
    const char *name, *op;
};

struct zt_timers {
    struct zt_device *device;
    enum zt_timers_level level;
    bool running;
    int64_t step;
    double began;
    ZT_VEC(struct moment) moments; /* events are reused in every step */
    int used;                      /* moments of this step */
    int previous;                  /* the moment at which the latest instruction ended */
    int parts;                     /* parts of the current instruction so far */
    ZT_VEC(struct span) spans;
    ZT_VEC(struct zt_timer) list;
    struct zt_err err; /* the first error of the device in this step */
};

static bool can_measure(const struct zt_device *device) {
    return !device->module || device->api->timer_create;
}

struct zt_timers *zt_timers_create(struct zt_device *device) {
    struct zt_timers *t = zt_calloc(1, sizeof *t);
    t->device = device;
    t->step = -1;
    return t;
}

void zt_timers_destroy(struct zt_timers *t) {
    if (!t)
        return;
    for (int i = 0; i < t->moments.count; i++)
        if (t->moments.at[i].event)
            t->device->api->event_destroy(t->device, t->moments.at[i].event);
    zt_vec_finish(&t->moments);
    zt_vec_finish(&t->spans);
    zt_vec_finish(&t->list);
    free(t);
}

void zt_timers_turn(struct zt_timers *t, enum zt_timers_level level) {
    t->level = can_measure(t->device) ? level : ZT_TIMERS_OFF;
}

bool zt_timers_on(const struct zt_timers *t) {
    return t && t->level != ZT_TIMERS_OFF;
}

/* Marks the current moment on the clock and returns its index. */
static int mark_host(struct zt_timers *t) {
    if (t->used == t->moments.count)
        zt_vec_push(&t->moments, (struct moment){ 0 });
    t->moments.at[t->used].at = zt_now();
    return t->used++;
}

/* Marks the current moment, on a device in its queue too, and returns its index. */
static int mark(struct zt_timers *t) {
    const struct zt_device_api *api = t->device->api;
    const int at = mark_host(t);
    struct moment *m = &t->moments.at[at];
    if (t->device->module && !t->err.count && (m->event || (m->event = api->timer_create(t->device, &t->err))))
        api->record(t->device, m->event, &t->err);
    return at;
}

void zt_timers_begin(struct zt_timers *t, int64_t step) {
    if (!zt_timers_on(t))
        return;
    t->running = true;
    t->step = step;
    t->used = t->parts = 0;
    t->spans.count = 0;
    t->err = (struct zt_err){ 0 };
    t->previous = mark(t);
    t->began = t->moments.at[t->previous].at;
}

void zt_timers_next(struct zt_timers *t, int kind, int micro_batch) {
    if (!t || !t->running)
        return;
    zt_vec_push(&t->spans,
                (struct span){ .kind = kind, .micro_batch = micro_batch, .from = t->previous, .to = mark(t) });
    for (int i = 1; i <= t->parts; i++)
        t->spans.at[t->spans.count - 1 - i].micro_batch = micro_batch;
    t->parts = 0;
    t->previous = t->spans.at[t->spans.count - 1].to;
}

int zt_timers_enter(struct zt_timers *t) {
    return t && t->running ? mark(t) : 0;
}

static void leave(struct zt_timers *t, struct span of) {
    of.to = of.host ? mark_host(t) : mark(t);
    of.micro_batch = -1;
    of.part = true;
    zt_vec_push(&t->spans, of);
    t->parts++;
}

void zt_timers_leave(struct zt_timers *t, int entered, int kind) {
    if (t && t->running)
        leave(t, (struct span){ .kind = kind, .from = entered });
}

int zt_timers_enter_host(struct zt_timers *t) {
    return t && t->running ? mark_host(t) : 0;
}

void zt_timers_leave_host(struct zt_timers *t, int entered, int kind) {
    if (t && t->running)
        leave(t, (struct span){ .kind = kind, .from = entered, .host = true });
}

int zt_timers_enter_node(struct zt_timers *t) {
    return t && t->level == ZT_TIMERS_NODES ? zt_timers_enter(t) : 0;
}

void zt_timers_leave_node(struct zt_timers *t, int entered, const char *name, const char *op) {
    if (t && t->running && t->level == ZT_TIMERS_NODES)
        leave(t, (struct span){ .kind = ZT_TIMER_NODE, .from = entered, .name = name, .op = op });
}

/* Returns the seconds from the beginning of the step to moment i. */
static double seconds_at(struct zt_timers *t, int i, bool host) {
    double seconds = t->moments.at[i].at - t->began;
    if (t->device->module && !host && !t->err.count)
        t->device->api->elapsed(t->device, t->moments.at[0].event, t->moments.at[i].event, &seconds, &t->err);
    return seconds;
}

bool zt_timers_end(struct zt_timers *t, struct zt_err *err) {
    if (!t || !t->running)
        return true;
    zt_timers_next(t, ZT_TIMER_END, -1);
    t->running = false;
    t->list.count = 0;
    if (!t->err.count && t->device->module)
        t->device->api->synchronize(t->device, &t->err);
    for (int i = 0; i < t->spans.count; i++) {
        const struct span *s = &t->spans.at[i];
        zt_vec_push(&t->list, (struct zt_timer){ .kind = s->kind,
                                                 .micro_batch = s->micro_batch,
                                                 .part = s->part,
                                                 .host = s->host && t->device->module,
                                                 .name = s->name,
                                                 .op = s->op,
                                                 .start = seconds_at(t, s->from, s->host),
                                                 .end = seconds_at(t, s->to, s->host) });
    }
    if (t->err.count)
        *err = t->err;
    return !t->err.count;
}

struct zt_step_timers zt_timers_of_step(const struct zt_timers *t) {
    if (!t || t->running || !t->list.count)
        return (struct zt_step_timers){ .step = -1 };
    return (struct zt_step_timers){ .step = t->step,
                                    .began = t->began,
                                    .seconds = t->list.at[t->list.count - 1].end,
                                    .at = t->list.at,
                                    .count = t->list.count };
}
