/* Optimizer steps of a rank. */
#ifndef ZT_RUN_STEP_H
#define ZT_RUN_STEP_H

#include "data/loader.h"
#include "run/rank/rank.h"

/* Runs one optimizer step on micro-batches from `loader` (NULL if rank 0 loads for this rank). If loss or norm is not
 * finite, the weights do not change and result->finite is false. Loss and norm are unscaled. */
bool zt_rank_step(struct zt_rank *rank, struct zt_loader *loader, int64_t step, struct zt_step_result *result,
                  struct zt_err *err);
/* The same in two parts; zt_rank_end() returns the result of the oldest step begun. At most ZT_RANK_AHEAD steps may be
 * begun and not ended, and all other functions of a rank require that none is. On an asynchronous device
 * (zt_rank_runs_ahead) a step can begin before the result of the previous one is known, even if that one skips its
 * update. */
bool zt_rank_begin(struct zt_rank *rank, struct zt_loader *loader, int64_t step, struct zt_err *err);
bool zt_rank_end(struct zt_rank *rank, struct zt_step_result *result, struct zt_err *err);
bool zt_rank_runs_ahead(const struct zt_rank *rank);
/* Whether some rank was asked to save or stop in the latest step begun. */
bool zt_rank_asked(const struct zt_rank *rank);

/* Ends an epoch for a learning-rate rule that follows a value (optim/optim.h), NULL: the mean loss of the epoch. Every
 * rank calls it with the same value, when no step is begun and not ended. */
void zt_rank_end_epoch(struct zt_rank *r, const double *value);

#endif
