/* The parameters of a rank at ZeRO stage 3, as the gathers read them: from the rank's block, or from a file through
 * buffers (zero_optimization.offload_param, device "nvme"). The next slices are read while kernels run. Slices of
 * frozen weights (parallel/schedule/frozen_weights.h) are in the block. */
#ifndef ZT_RUN_RANK_SHARDS_H
#define ZT_RUN_RANK_SHARDS_H

#include "run/rank/blocks.h"

/* Allocates the buffers if parameters are in a file. The files must be open (offload.h). */
bool zt_rank_shards_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_shards_destroy(struct zt_rank *r);

/* Fills the slices of frozen weights from the model file, converted to the type in which nodes read them. No other part
 * of these weights is read. */
bool zt_rank_place_frozen(struct zt_rank *r, struct zt_err *err);

/* Elements of this rank's slice of a bucket. */
struct zt_shard_part {
    int bucket;           /* numbered through (zt_flats) */
    int64_t first, count; /* in the slice */
};
/* Copies the part into device memory, in the order of the device's stream. */
bool zt_rank_shard_copy(struct zt_rank *r, struct zt_shard_part part, float *to, struct zt_err *err);
/* Starts to read the slices that the next GATHER commands of `list` need, from `at` on. */
bool zt_rank_shards_ahead(struct zt_rank *r, const struct zt_command *list, int at, int count, struct zt_err *err);
/* Forgets what was read: the file changes. */
bool zt_rank_shards_changed(struct zt_rank *r, struct zt_err *err);
/* Returns the bucket of element `param_at` of the rank's shard. */
int zt_rank_shard_bucket(const struct zt_rank *r, int64_t param_at);

#endif
