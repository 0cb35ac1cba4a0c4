#include "run/rank/times.h"

#include "base/clock.h"
#include "base/vec.h"

#include <stdlib.h>

/* Device work of an entry, between two events in its queue. */
struct stretch {
    int entry;
    struct zt_event *from, *to;
};

struct zt_rank_times {
    const struct zt_program *program; /* the timed program: that of full micro-batches */
    int steps, entries, step;
    int *runs; /* runs in the current step, by part, then by node */
    /* by step, as in zt_rank_plan_times(): the sum in the current step, the time of one run in earlier steps */
    double *seconds;
    double *kernels;               /* by step: time of all kernels */
    ZT_VEC(struct stretch) queued; /* on a device: events, reused in every step */
    int used;                      /* number used in the current step */
    struct zt_err err;             /* error of the device while events were recorded */
};

int zt_rank_plan_times(const struct zt_rank_plan *p) {
    return p->programs.train.count ? ZT_PARTS + p->programs.train.at[0]->training_graph.graph->node_count : 0;
}

bool zt_rank_can_time(const struct zt_device *device) {
    return !device->module || device->api->timer_create;
}

void zt_rank_time(struct zt_rank *r, int steps) {
    const struct zt_rank_plan *p = r->plan;
    if (r->times || !zt_rank_can_time(r->device) || !p->programs.train.count)
        return;
    struct zt_rank_times *t = zt_calloc(1, sizeof *t);
    t->program = p->programs.train.at[0];
    t->steps = steps;
    t->entries = zt_rank_plan_times(p);
    t->runs = zt_calloc((size_t)t->entries, sizeof *t->runs);
    t->seconds = zt_calloc((size_t)t->entries * (size_t)steps, sizeof *t->seconds);
    t->kernels = zt_calloc((size_t)steps, sizeof *t->kernels);
    r->times = t;
}

static double *seconds_of(const struct zt_rank_times *t, int step) {
    return t->seconds + (size_t)t->entries * (size_t)step;
}

bool zt_rank_times_on(const struct zt_rank *r) {
    return r->times && r->times->step < r->times->steps;
}

/* ---- events of a device ---- */

static bool make_stretch(struct zt_rank *r) {
    struct zt_rank_times *t = r->times;
    const struct zt_device_api *api = r->device->api;
    if (t->used < t->queued.count)
        return true;
    struct stretch s = { .from = api->timer_create(r->device, &t->err) };
    if (s.from && !(s.to = api->timer_create(r->device, &t->err)))
        api->event_destroy(r->device, s.from);
    if (s.to)
        zt_vec_push(&t->queued, s);
    return s.to != NULL;
}

static void begin_stretch(struct zt_rank *r) {
    struct zt_rank_times *t = r->times;
    if (!t->err.count && make_stretch(r))
        r->device->api->record(r->device, t->queued.at[t->used].from, &t->err);
}

static void end_stretch(struct zt_rank *r, int entry) {
    struct zt_rank_times *t = r->times;
    if (t->err.count)
        return;
    t->queued.at[t->used].entry = entry;
    r->device->api->record(r->device, t->queued.at[t->used++].to, &t->err);
}

/* ---- a step ---- */

static void add(struct zt_rank_times *t, int entry, double seconds) {
    seconds_of(t, t->step)[entry] += seconds;
    t->kernels[t->step] += entry < ZT_PARTS ? 0 : seconds;
    t->runs[entry]++;
}

static void note(struct zt_rank *r, int entry, double began) {
    if (!zt_rank_times_on(r))
        return;
    if (r->device->module)
        end_stretch(r, entry);
    else
        add(r->times, entry, zt_now() - began);
}

double zt_rank_times_begin(struct zt_rank *r) {
    if (!zt_rank_times_on(r))
        return 0;
    if (r->device->module)
        begin_stretch(r);
    return zt_now();
}

void zt_rank_times_node(struct zt_rank *r, const struct zt_run_program *rp, int node, double began) {
    if (r->times && rp->program == r->times->program)
        note(r, ZT_PARTS + node, began);
}

void zt_rank_times_part(struct zt_rank *r, enum zt_part part, double began) {
    note(r, part, began);
}

static bool read_stretches(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_times *t = r->times;
    if (t->err.count) {
        *err = t->err;
        return false;
    }
    bool ok = t->used == 0 || r->device->api->synchronize(r->device, err);
    for (int i = 0; ok && i < t->used; i++) {
        const struct stretch *s = &t->queued.at[i];
        double seconds = 0;
        ok = r->device->api->elapsed(r->device, s->from, s->to, &seconds, err);
        add(t, s->entry, seconds);
    }
    t->used = 0;
    return ok;
}

bool zt_rank_times_end(struct zt_rank *r, struct zt_err *err) {
    struct zt_rank_times *t = r->times;
    if (!zt_rank_times_on(r))
        return true;
    if (!read_stretches(r, err))
        return false;
    for (int i = 0; i < t->entries; i++) {
        double *seconds = &seconds_of(t, t->step)[i];
        *seconds = t->runs[i] ? *seconds / t->runs[i] : -1;
        t->runs[i] = 0;
    }
    t->step++;
    return true;
}

/* ---- results ---- */

int zt_rank_timed_count(const struct zt_rank *r) {
    return r->times ? r->times->step : 0;
}

double zt_rank_timed_step(const struct zt_rank *r, int step) {
    return r->times ? r->times->kernels[step] : 0;
}

void zt_rank_timed(const struct zt_rank *r, int step, double *to) {
    for (int i = 0; r->times && i < r->times->entries; i++)
        to[i] = step < r->times->step ? seconds_of(r->times, step)[i] : -1;
}

void zt_rank_time_end(struct zt_rank *r) {
    struct zt_rank_times *t = r->times;
    if (!t)
        return;
    for (int i = 0; i < t->queued.count; i++) {
        r->device->api->event_destroy(r->device, t->queued.at[i].from);
        r->device->api->event_destroy(r->device, t->queued.at[i].to);
    }
    zt_vec_finish(&t->queued);
    free(t->seconds);
    free(t->kernels);
    free(t->runs);
    free(t);
    r->times = NULL;
}
