/* The memory blocks of a rank (run/rank/rank.h). */
#ifndef ZT_PLAN_RANK_MEMORY_H
#define ZT_PLAN_RANK_MEMORY_H

#include "parallel/comm/compressed.h"

struct zt_rank_memory {
    int64_t parameter_bytes, derived_bytes, gradient_bytes, optimizer_bytes, activation_bytes,
        workspace_bytes;           /* of the blocks; optimizer_bytes without what is offloaded */
    int64_t shard_elems;           /* parameters that the rank holds in memory: in its block, or beside a GPU */
    int64_t frozen_shard_bytes;    /* of parameter_bytes, in front of the statistics: the rank's frozen weights */
    int64_t frozen_bytes;          /* contents of frozen weights that every rank of the stage holds whole */
    int64_t loss_activation_bytes; /* the part of activation_bytes for the loss, in the last slot */
    int64_t matrix_bytes;          /* host memory while a matrix is updated beside a GPU; 0: the workspace has room */
    int optimizer_states;          /* number of optimizer state arrays */
    bool averages;                 /* the last of them is the average of the weights (ztrain.ema) */
    /* 1-bit optimizers: positions in the optimizer block behind the state arrays, in bytes from its start. The errors
     * of the compression by side, what is remembered of tensors (optim/one_bit/trust.h), working memory. */
    const struct zt_compressed *compressed; /* NULL: nothing is compressed */
    int64_t error_at[ZT_COMPRESSED_SIDES], trust_at, compressed_at;
};

#endif
