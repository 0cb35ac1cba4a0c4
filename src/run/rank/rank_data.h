/* Where a rank's micro-batches come from. */
#ifndef ZT_RUN_RANK_RANK_DATA_H
#define ZT_RUN_RANK_RANK_DATA_H

#include "data/data.h"
#include "data/loader.h"
#include "run/rank/rank.h"

/* What this rank reads of the training data from step `first` to the end of step `steps` - 1, or of all evaluation
 * data. To be destroyed before the rank; *to is NULL where rank 0 reads for it. */
bool zt_rank_loader(struct zt_rank *rank, bool training, int64_t first, int64_t steps, struct zt_loader **to,
                    struct zt_err *err);
/* Says how many threads read, which data stay in the device's memory, and why others do not. */
void zt_rank_say_data(const struct zt_rank *rank, const struct zt_log *log);

#endif
