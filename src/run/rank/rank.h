/* A running rank. It allocates five memory blocks of the sizes in its plan (plan/rank_plan.h): parameters (with
 * statistics and derived weights), gradients, optimizer, activations, workspace. It allocates nothing afterwards. Its
 * operations are in step.h, evaluate.h and collect.h, its internals in blocks.h. */
#ifndef ZT_RUN_RANK_RANK_H
#define ZT_RUN_RANK_RANK_H

#include "base/log.h"
#include "optim/optim.h"
#include "optim/loss_scale.h"
#include "parallel/comm/comm.h"
#include "plan/rank_plan.h"

struct zt_rank;
struct zt_stop;
struct zt_timers;

/* Points in the creation of a rank, in this order. ZT_RANK_LACKS_STATES: all but the optimizer's block is allocated.
 */
enum zt_rank_point {
    ZT_RANK_BEGINS,
    ZT_RANK_HAS_PARAMETERS,
    ZT_RANK_LACKS_STATES,
    ZT_RANK_HAS_STATES,
    ZT_RANK_READY,
    /* Points in a step: around the phases of each micro-batch, and before norm and optimizer. */
    ZT_RANK_BEFORE_FORWARD,
    ZT_RANK_AFTER_FORWARD,
    ZT_RANK_BEFORE_BACKWARD,
    ZT_RANK_AFTER_BACKWARD,
    ZT_RANK_BEFORE_STEP
};
/* `at` is called with `with` at each of the points. */
struct zt_rank_progress {
    void (*at)(void *with, enum zt_rank_point point);
    void *with;
};
/* Creates a rank and places the initial weights. `world` and `data` (the data-parallel group of the stage) are
 * borrowed. progress: NULL, if nobody follows it. */
struct zt_rank *zt_rank_create(const struct zt_rank_plan *plan, struct zt_device *device, struct zt_comm *world,
                               struct zt_comm *data, const struct zt_rank_progress *progress, struct zt_err *err);
void zt_rank_destroy(struct zt_rank *rank);
/* Prints a warning for each node whose implementation differs from the planned one (struct zt_path). */
void zt_rank_warn_paths(const struct zt_rank *rank, const struct zt_log *log);

/* From now on the rank forwards the stop and save requests of this process in the reduction of its steps (stop.h).
 * `stop` is borrowed. Exactly one rank of a process does this. */
void zt_rank_watch(struct zt_rank *rank, struct zt_stop *stop);

/* The following steps use `timers`, which are borrowed. */
void zt_rank_use_timers(struct zt_rank *rank, struct zt_timers *timers);

/* In the following steps `progress`, which is borrowed, is told the points of a step. */
void zt_rank_follow(struct zt_rank *rank, const struct zt_rank_progress *progress);

/* Returns the number of optimizer updates since the model file. */
int64_t zt_rank_updates(const struct zt_rank *rank);

/* The result of an optimizer step. */
struct zt_step_result {
    double loss, grad_norm, lr;
    struct zt_rate next; /* rates of the next step */
    const struct zt_lr_state *lr_state;
    int stop;                      /* the signal for which all ranks save and stop; 0: none */
    bool save;                     /* all ranks save a checkpoint */
    int64_t samples, epoch, batch; /* batch: index in the epoch */
    double loss_scale;             /* loss scale of the step */
    struct zt_scaling scaling;     /* loss scale state after the step */
    bool finite;
};
/* Largest number of steps that may be begun and not ended (step.h). */
enum { ZT_RANK_AHEAD = 2 };

#endif
