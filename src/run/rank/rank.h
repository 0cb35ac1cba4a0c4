/* A running rank: it allocates five blocks of the sizes that its plan gives (plan/rank_plan.h) and nothing after that:
 * parameters (with statistics and derived weights), gradients, optimizer, activations, workspace. What it does with
 * them is in step.h, evaluate.h and collect.h; its inside is in blocks.h. */
#ifndef ZT_RUN_RANK_RANK_H
#define ZT_RUN_RANK_RANK_H

#include "base/log.h"
#include "optim/scale.h"
#include "parallel/comm/comm.h"
#include "plan/rank_plan.h"

struct zt_rank; /* a running rank */
struct zt_stop;

/* `world` and `data` (the data-parallel group of the stage) are borrowed. Places the initial weights. */
struct zt_rank *zt_rank_create(const struct zt_rank_plan *plan, struct zt_device *device, struct zt_comm *world,
                               struct zt_comm *data, struct zt_err *err);
void zt_rank_destroy(struct zt_rank *rank);
/* Warns of nodes that ran another way than they were planned (struct zt_path). */
void zt_rank_warn_paths(const struct zt_rank *rank, const struct zt_log *log);

/* From now on the rank passes on the requests of this process in the reduction of its steps (stop.h); borrowed. Of the
 * ranks of one process one does. */
void zt_rank_watch(struct zt_rank *rank, struct zt_stop *stop);

int64_t zt_rank_updates(const struct zt_rank *rank); /* optimizer steps applied since the model file */

/* What one optimizer step gave. */
struct zt_step_result {
    double loss, grad_norm, lr;
    int stop;                      /* signal that all ranks are to save and stop for; 0: none */
    bool save;                     /* they are to save */
    int64_t samples, epoch, batch; /* batch: index in the epoch */
    double loss_scale;             /* that it was run with */
    struct zt_scaling scaling;     /* behind it */
    bool finite;
};
/* Steps that may be begun and not ended (step.h). */
enum { ZT_RANK_AHEAD = 2 };

#endif
