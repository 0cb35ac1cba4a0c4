/* The source of a rank's micro-batches. */
#ifndef ZT_RUN_RANK_DATA_H
#define ZT_RUN_RANK_DATA_H

#include "data/data.h"
#include "data/loader.h"
#include "run/rank/rank.h"

/* Opens a loader for this rank's part of the training data from step `first` to before step `steps`, or of all
 * evaluation data. It must be destroyed before the rank. *to is NULL if rank 0 loads for this rank. */
bool zt_rank_loader(struct zt_rank *rank, bool training, int64_t first, int64_t steps, struct zt_loader **to,
                    struct zt_err *err);
/* Prints the number of reading threads, which data are in device memory, and why others are not. */
void zt_rank_say_data(const struct zt_rank *rank, const struct zt_log *log);
/* Prints, with --verbose, which part of the `seconds` of all steps waited for the loader; nothing without a loader or
 * without steps. */
void zt_rank_say_waited(const struct zt_loader *loader, double seconds, const struct zt_log *log);

#endif
