/* The plan of all ranks: what every stage runs, holds and moves, and how long a step is predicted to take. Ranks of a
 * stage run the same program and differ only in the slices they own, so there is one rank plan a stage, not one a rank.
 * Pure: it runs nothing and needs neither weights nor the devices that it plans for. */
#ifndef ZT_PLAN_PLAN_H
#define ZT_PLAN_PLAN_H

#include "parallel/schedule/cost.h"
#include "parallel/schedule/simulate.h"
#include "plan/rank_bytes.h"

struct zt_plan {
    struct zt_arena *arena;
    const struct zt_job *job;
    struct zt_machine machine;
    struct zt_grid grid;               /* of rank 0 */
    const struct zt_rank_plan **stage; /* by stage: the plan of one of its ranks */
    struct zt_rank_plan **made;        /* those of them that are the plan's own */
    struct zt_stage_cost *cost;        /* by stage; none where nothing is trained */
    struct zt_timeline timeline;       /* of a full step */
    uint64_t hash;                     /* zt_rank_plan.hash */
    const char *chosen;                /* why it is this one, in lines; NULL: the config says so. Borrowed */
    bool elsewhere;                    /* as zt_rank_options */
};

struct zt_plan_options {
    const struct zt_source *source, *eval_source; /* as zt_rank_options */
    struct zt_device *device;
    int threads;
    const struct zt_machine *machine;
    bool elsewhere;                   /* as zt_rank_options */
    const char *chosen;               /* as zt_plan */
    const struct zt_rank_plan *known; /* a rank's plan that is made already, borrowed; NULL: none */
};

/* Errors as zt_rank_plan_create. */
struct zt_plan *zt_plan_create(const struct zt_job *job, const struct zt_plan_options *options, struct zt_err *err);
void zt_plan_destroy(struct zt_plan *plan);
/* The prediction anew, for another machine, and with what a rank of each stage measured of its parts and kernels (enum
 * zt_part); NULL: nothing was. */
bool zt_plan_predict(struct zt_plan *plan, const struct zt_machine *machine, const double *const *times,
                     struct zt_err *err);

/* What rank `stage * data + data_rank` holds. */
struct zt_rank_bytes zt_plan_bytes(const struct zt_plan *plan, int stage, int data_rank);
/* The largest total of any rank. */
int64_t zt_plan_most_bytes(const struct zt_plan *plan);
/* FLOPs of a step on all ranks. */
double zt_plan_flops(const struct zt_plan *plan);

#endif
