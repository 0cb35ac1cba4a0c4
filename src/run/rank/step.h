/* The optimizer step of a rank. */
#ifndef ZT_RUN_RANK_STEP_H
#define ZT_RUN_RANK_STEP_H

#include "data/loader.h"
#include "run/rank/rank.h"

/* One optimizer step: micro-batches from `loader` (NULL where rank 0 reads for this rank). A loss or norm that is not
 * finite leaves weights as they are and sets finite false. Loss and norm are those of the loss that is not scaled. */
bool zt_rank_step(struct zt_rank *rank, struct zt_loader *loader, int64_t step, struct zt_step_result *result,
                  struct zt_err *err);
/* The same in two halves: end gives the result of the oldest step begun. At most ZT_RANK_AHEAD may be begun and not
 * ended, and all else that is asked of a rank wants them ended. Where a device works on its own (runs_ahead) a step is
 * begun before the last one's outcome is known, which an update that is left out does not disturb. */
bool zt_rank_begin(struct zt_rank *rank, struct zt_loader *loader, int64_t step, struct zt_err *err);
bool zt_rank_end(struct zt_rank *rank, struct zt_step_result *result, struct zt_err *err);
bool zt_rank_runs_ahead(const struct zt_rank *rank);
/* Whether in the step begun last some rank was asked to save or to stop. */
bool zt_rank_asked(const struct zt_rank *rank);

#endif
