/* The plan of all ranks: the program, memory and traffic of every stage, and the predicted time of a step. Ranks of a
 * stage run the same program on different slices, so the plan has one rank plan for each stage. Planning is pure: it
 * runs nothing and needs neither weights nor the planned devices. */
#ifndef ZT_PLAN_PLAN_H
#define ZT_PLAN_PLAN_H

#include "parallel/schedule/cost.h"
#include "parallel/schedule/simulate.h"
#include "plan/rank_bytes.h"

struct zt_plan {
    struct zt_arena *arena;
    const struct zt_job *job;
    struct zt_machine machine;
    struct zt_grid grid;               /* grid of rank 0 */
    const struct zt_rank_plan **stage; /* by stage: the plan of one rank */
    struct zt_rank_plan **made;        /* the rank plans that this plan owns */
    struct zt_stage_cost *cost;        /* by stage; NULL if nothing is trained */
    struct zt_timeline timeline;       /* simulation of a full step */
    uint64_t hash;                     /* zt_rank_plan.hash */
    bool elsewhere;                    /* as zt_rank_options */
};

struct zt_plan_options {
    const struct zt_source *source, *eval_source; /* as zt_rank_options */
    struct zt_device *device;
    int threads;
    const struct zt_machine *machine;
    bool elsewhere;                   /* as zt_rank_options */
    const struct zt_rank_plan *known; /* an existing rank plan, borrowed; NULL: none */
};

/* Plans all ranks. The errors are those of zt_rank_plan_create(). */
struct zt_plan *zt_plan_create(const struct zt_job *job, const struct zt_plan_options *options, struct zt_err *err);
void zt_plan_destroy(struct zt_plan *plan);
/* Predicts the step time again for another machine. `times` are the measured times of parts and kernels of a rank of
 * each stage (enum zt_part); NULL: none were measured. */
bool zt_plan_predict(struct zt_plan *plan, const struct zt_machine *machine, const double *const *times,
                     struct zt_err *err);

/* Returns the memory of rank `stage * data + data_rank`. */
struct zt_rank_bytes zt_plan_bytes(const struct zt_plan *plan, int stage, int data_rank);
/* Returns the largest memory in bytes of any rank. */
int64_t zt_plan_most_bytes(const struct zt_plan *plan);
/* Returns the FLOPs of a step on all ranks. */
double zt_plan_flops(const struct zt_plan *plan);

#endif
