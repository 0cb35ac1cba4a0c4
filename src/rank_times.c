#include "rank_times.h"

#include "base/clock.h"

#include <stdlib.h>

struct zt_rank_times {
    const struct zt_program *program; /* the one that is timed: that of full micro-batches */
    int steps, entries, step;
    int *runs; /* in the step at hand: by part, then by node */
    /* by step, as zt_rank_plan_times(): their sum in the step at hand, of one run before */
    double *seconds;
    double *kernels; /* by step, together */
};

int zt_rank_plan_times(const struct zt_rank_plan *p) {
    return p->train.count ? ZT_PARTS + p->train.at[0]->joint.graph->node_count : 0;
}

void zt_rank_time(struct zt_rank *r, int steps) {
    const struct zt_rank_plan *p = r->plan;
    if (r->times || r->device->module || !p->train.count)
        return;
    struct zt_rank_times *t = zt_calloc(1, sizeof *t);
    t->program = p->train.at[0];
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

static void note(struct zt_rank_times *t, int entry, double began) {
    if (t->step == t->steps)
        return;
    double seconds = zt_now() - began;
    seconds_of(t, t->step)[entry] += seconds;
    t->kernels[t->step] += entry < ZT_PARTS ? 0 : seconds;
    t->runs[entry]++;
}

void zt_rank_times_node(struct zt_rank *r, const struct zt_run_program *rp, int node, double began) {
    if (r->times && rp->program == r->times->program)
        note(r->times, ZT_PARTS + node, began);
}

void zt_rank_times_part(struct zt_rank *r, enum zt_part part, double began) {
    if (r->times)
        note(r->times, part, began);
}

void zt_rank_times_end(struct zt_rank *r) {
    struct zt_rank_times *t = r->times;
    if (!t || t->step == t->steps)
        return;
    for (int i = 0; i < t->entries; i++) {
        double *seconds = &seconds_of(t, t->step)[i];
        *seconds = t->runs[i] ? *seconds / t->runs[i] : -1;
        t->runs[i] = 0;
    }
    t->step++;
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
    free(t->seconds);
    free(t->kernels);
    free(t->runs);
    free(t);
    r->times = NULL;
}
