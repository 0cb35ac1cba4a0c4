/* The plan of one rank: its programs, slices, schedules and memory. Planning is pure: the same inputs give the same
 * plan on every machine. `ztrain plan` makes and prints it. */
#ifndef ZT_PLAN_RANK_PLAN_H
#define ZT_PLAN_RANK_PLAN_H

#include "parallel/partition/grid.h"
#include "plan/job/job.h"
#include "plan/offload.h"
#include "plan/rank/memory.h"
#include "plan/rank/programs.h"
#include "plan/rank/steps.h"
#include "plan/rank/tensors.h"
#include "plan/rank/traffic.h"

struct zt_device;

struct zt_rank_plan {
    struct zt_arena *arena;
    const struct zt_job *job;
    const struct zt_source *source, *eval_source; /* borrowed; NULL: none */
    struct zt_grid grid;
    const struct zt_sharding *sharding;
    bool replicas;      /* mode dp: rank 0 loads whole micro-batches and scatters them to the replicas */
    int threads;        /* compute threads of the rank */
    bool device_memory; /* planned for a device with its own memory, which may hold the data set
                           (run/rank/stored_data.h) */
    bool trains;        /* the rank plans gradients and optimizer states; false: only an evaluation */
    const char *folder; /* output folder of the run; NULL: none */
    struct zt_stage_bounds *stage_bounds; /* bounds of the stages, the same for all programs */
    const char **layers;                  /* names of the layers in the bounds; NULL: one stage */
    struct zt_rank_steps steps;
    struct zt_rank_tensors tensors;
    struct zt_rank_traffic traffic;
    struct zt_rank_programs programs;
    struct zt_offload offload;
    struct zt_rank_memory memory;
    double flops;  /* forward and backward of a full micro-batch on this stage */
    uint64_t hash; /* hash of everything that must be equal on all ranks: grid, graphs, stage bounds, buckets, steps,
                      schedule, requested recomputation */
};

struct zt_rank_options {
    const struct zt_source *source, *eval_source; /* column shapes; eval_source may be NULL */
    int rank;
    struct zt_device *device;
    int threads;
    const char *folder; /* output folder of the run, which names its files below nvme_path; NULL: it does not run */
    bool elsewhere;     /* planned for other hardware: plain layouts, no kernels of this machine; the plan cannot run */
};
/* Plans a rank. Errors: data that do not fit the model, nodes without a kernel, a memory limit that is too low. Destroy
 * with zt_rank_plan_destroy(). */
struct zt_rank_plan *zt_rank_plan_create(const struct zt_job *job, const struct zt_rank_options *options,
                                         struct zt_err *err);
void zt_rank_plan_destroy(struct zt_rank_plan *plan);
/* Writes what ranks divide: "zero2", or that the config's stage divides nothing. Returns `to`. */
char *zt_rank_plan_mode(const struct zt_rank_plan *plan, char *to, size_t size);

#endif
