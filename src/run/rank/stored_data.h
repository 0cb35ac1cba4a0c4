/* Data that stay in the memory of a rank's device as their format keeps them (struct zt_stored): of a micro-batch only
 * the numbers of its samples come over the bus, and one launch makes the samples of what is there.
 *
 * Training data and evaluation data stay, each, where the format keeps samples and half of what is free once all blocks
 * are allocated holds them. Each rank that loads holds all of them. They are read once, when the rank is made: a file
 * that changes later changes nothing. */
#ifndef ZT_RUN_RANK_STORED_DATA_H
#define ZT_RUN_RANK_STORED_DATA_H

#include "run/rank/blocks.h"

/* The last of what a rank allocates. False where a file could not be read, or the device failed; data that do not stay
 * are no error. */
bool zt_rank_stored_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_stored_destroy(struct zt_rank *r);

/* Whether these data stay; `source` is one of the plan's. */
bool zt_rank_stored_has(const struct zt_rank *r, const struct zt_source *source);

/* For a column of such data, what makes `rows` samples at `to`, of the numbers at `index` in the device's memory. */
struct zt_gather zt_rank_stored_gather(const struct zt_rank *r, const struct zt_source *source, int column);

/* A line for training data and one for evaluation data: whether they stay, or why not, and then how many threads read;
 * `brings`: the bytes that come for a micro-batch of each. */
void zt_rank_stored_say(const struct zt_rank *r, int readers, const int64_t brings[2], const struct zt_log *log);

#endif
