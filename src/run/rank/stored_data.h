/* Data sets in device memory, in their stored format (struct zt_stored). For each micro-batch only the numbers of its
 * samples are copied to the device, and one kernel launch builds the samples.
 *
 * Training and evaluation data are stored separately, each if its format supports it and it fits into half of the free
 * device memory after all blocks are allocated. Each rank that loads stores all data. The data are read once when the
 * rank is created; later changes of the files have no effect. */
#ifndef ZT_RUN_RANK_STORED_DATA_H
#define ZT_RUN_RANK_STORED_DATA_H

#include "run/rank/blocks.h"

/* Stores the data; must be the last allocation of a rank. Returns false if a file cannot be read or the device fails.
 * Data that are not stored are no error. */
bool zt_rank_stored_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_stored_destroy(struct zt_rank *r);

/* Whether these data are stored; `source` is one of the plan's. */
bool zt_rank_stored_has(const struct zt_rank *r, const struct zt_source *source);

/* Returns the gather of a stored column; the caller sets `rows`, `to`, and the sample numbers `index` in device memory.
 */
struct zt_gather zt_rank_stored_gather(const struct zt_rank *r, const struct zt_source *source, int column);

/* Prints a line each for training and evaluation data: stored, or the reason why not and the number of reading threads.
 * `fed_bytes`: bytes copied for a micro-batch of each. */
void zt_rank_stored_say(const struct zt_rank *r, int readers, const int64_t fed_bytes[2], const struct zt_log *log);

#endif
