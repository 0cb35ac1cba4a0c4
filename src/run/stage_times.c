#include "run/stage_times.h"

#include "base/arena.h"
#include "base/sort.h"
#include "run/rank/times.h"

#include <stdlib.h>

/* The timed steps. */
struct timed {
    int from, steps; /* first timed step, and their number */
    int step;        /* the step whose slowest rank took the median time, relative to `from` */
    int64_t *first;  /* by stage: first index in `times` */
    double *took;    /* by step and rank: time of all kernels */
    double *times;   /* the slowest rank of each stage in that step, one stage after the other */
};

static double slowest(const double *took, int ranks) {
    double most = 0;
    for (int r = 0; r < ranks; r++)
        most = took[r] > most ? took[r] : most;
    return most;
}

static bool find_step(struct timed *t, const struct zt_rank *run, struct zt_comm *world, struct zt_err *err) {
    double *by_step = zt_calloc(2 * (size_t)t->steps, sizeof *by_step), *sorted = by_step + t->steps;
    for (int k = 0; k < t->steps; k++)
        t->took[k * world->size + world->rank] = zt_rank_timed_step(run, t->from + k);
    bool ok = world->api->sum(world, t->took, t->steps * world->size, err);
    for (int k = 0; k < t->steps; k++)
        sorted[k] = by_step[k] = slowest(t->took + k * world->size, world->size);
    zt_sort_doubles(sorted, t->steps);
    while (by_step[t->step] != sorted[t->steps / 2])
        t->step++;
    free(by_step);
    return ok;
}

/* Whether this rank took the longest of the data-parallel ranks of its stage (the first of equal ones). */
static bool is_slowest(const struct timed *t, const struct zt_grid *grid) {
    const double *took = t->took + t->step * grid->world;
    int found = zt_grid_rank(grid, grid->stage, 0);
    for (int r = 1; r < grid->data; r++)
        if (took[zt_grid_rank(grid, grid->stage, r)] > took[found])
            found = zt_grid_rank(grid, grid->stage, r);
    return found == grid->rank;
}

static bool share_times(struct timed *t, const struct zt_rank_plan *own, const struct zt_rank *run,
                        struct zt_comm *world, struct zt_err *err) {
    int stages = own->grid.stages, mine = own->grid.stage;
    bool kernels = is_slowest(t, &own->grid), parts = own->replicas ? own->grid.rank == 0 : kernels;
    double *counts = zt_calloc((size_t)stages, sizeof *counts);
    int64_t total = 0;
    counts[mine] = kernels ? zt_rank_plan_times(own) : 0;
    bool ok = world->api->sum(world, counts, stages, err);
    for (int s = 0; ok && s < stages; s++) {
        t->first[s] = total;
        total += (int64_t)counts[s];
    }
    free(counts);
    t->times = zt_calloc((size_t)total + 1, sizeof *t->times);
    double *mine_at = t->times + t->first[mine];
    if (ok && (kernels || parts))
        zt_rank_timed(run, t->from + t->step, mine_at);
    for (int i = 0; ok && i < zt_rank_plan_times(own); i++) /* zero, because another rank contributes the times */
        mine_at[i] = (i < ZT_PARTS ? parts : kernels) ? mine_at[i] : 0;
    return ok && world->api->sum(world, t->times, (int)total, err);
}

bool zt_stage_times_collect(struct zt_stage_times *to, const struct zt_rank *run, int from, int steps,
                            struct zt_comm *world, struct zt_err *err) {
    const struct zt_rank_plan *own = run->plan;
    const size_t stages = (size_t)own->grid.stages;
    struct timed t = { .from = from,
                       .steps = steps,
                       .first = zt_calloc(stages, sizeof *t.first),
                       .took = zt_calloc((size_t)world->size * (size_t)steps, sizeof *t.took) };
    bool ok = find_step(&t, run, world, err) && share_times(&t, own, run, world, err);
    *to = (struct zt_stage_times){ zt_calloc(stages, sizeof *to->of), t.times };
    for (size_t s = 0; ok && s < stages; s++)
        to->of[s] = t.times + t.first[s];
    free(t.first);
    free(t.took);
    return ok;
}

void zt_stage_times_finish(struct zt_stage_times *t) {
    free(t->of);
    free(t->times);
}
