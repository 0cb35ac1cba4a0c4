/* Collectives over buckets: parameters are gathered, gradients are summed over the data-parallel ranks (all-reduce or
 * reduce-scatter), in fp32 or in 16 bits. They are begun, and waited for by another command. */
#ifndef ZT_RUN_RANK_BUCKET_COLLECTIVES_H
#define ZT_RUN_RANK_BUCKET_COLLECTIVES_H

#include "run/rank/blocks.h"
#include "run/rank/captured.h"

/* Begins to gather the parameters of bucket c->bucket to c->at. */
bool zt_rank_gather(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err);
/* Gathers all small persistent tensors with one all_gather. */
bool zt_rank_gather_persistent(struct zt_rank *r, struct zt_err *err);
bool zt_rank_wait_for_bucket(struct zt_rank *r, int b, struct zt_err *err);

/* Begins to sum the gradients of a bucket at c->at. */
bool zt_rank_reduce(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, struct zt_err *err);
/* Waits for the sums; where gradients are sharded the own slice goes to its block, added to what is there on
 * `accumulate`. */
bool zt_rank_reduced(struct zt_rank *r, const struct zt_slot *slot, const struct zt_command *c, bool accumulate,
                     struct zt_err *err);

/* Whether sums over micro-batches are rounded to 16 bits (data_types.grad_accum_dtype). */
bool zt_rank_rounds_gradients(const struct zt_rank *r);
/* Adds a->from (NULL: nothing) to a->to, bytes of fp32, and rounds. */
bool zt_rank_add_rounded(struct zt_rank *r, const struct zt_action *a, struct zt_err *err);

#endif
