/* Optimizer states and parameters of a rank in files or, beside a GPU, in host memory
 * (zero_optimization.offload_optimizer and offload_param).
 *
 * A file holds arrays one after the other, each in the order of the pieces. The update goes through the sub-groups in
 * order: a sub-group is read into a buffer, updated, and written back.
 *
 *     buffer 0   read 0   update 0   write 0              read 3 ...
 *     buffer 1            read 1     update 1   write 1          pipeline_read and pipeline_write, depth 3
 *     buffer 2                       read 2     update 2   write 2
 *
 * Sub-groups begin at multiples of 4,096 bytes, so that transfers can bypass the page cache and never share a block of
 * the disk. The numbers do not depend on any of this. shards.h reads the parameters for the gathers.
 *
 * Beside a GPU the host updates the pieces whose states are offloaded, with the CPU's loops, while the gradients of the
 * next sub-group come from the device and the weights of the last one return to it:
 *
 *     device     gradients 0   gradients 1    weights 0   gradients 2   weights 1
 *     host                     update 0                   update 1                  update 2
 */
#ifndef ZT_RUN_RANK_OFFLOAD_H
#define ZT_RUN_RANK_OFFLOAD_H

#include "base/log.h"
#include "parallel/offload/aio.h"
#include "run/rank/blocks.h"

/* Allocates r->offload, and beside a GPU the host memory of the parameters (r->shard) and of matrices that the host
 * updates (r->matrix_space). Before the pieces. */
bool zt_rank_offload_shard(struct zt_rank *r, struct zt_err *err);
/* Divides the pieces into sub-groups, and opens the files and buffers of the plan's offload. All pieces must exist. */
bool zt_rank_offload_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_offload_destroy(struct zt_rank *r);

/* Access to a sub-group while it is in memory (bitmask). */
enum zt_sub_group_use {
    ZT_READS_STATES = 1,
    ZT_WRITES_STATES = 2,
    ZT_READS_PARAMS = 4,
    ZT_WRITES_PARAMS = 8,
    ZT_READS_GRADIENTS = 16, /* beside a GPU */
    ZT_READS_ALL = ZT_READS_STATES | ZT_READS_PARAMS,
    ZT_WRITES_ALL = ZT_WRITES_STATES | ZT_WRITES_PARAMS,
};
/* Brings sub-group `g` into memory, as far as it is read, and sets the pointers of its pieces. `ahead`: the next one is
 * opened after it, with the same use. Nothing to do where the sub-group is not offloaded. */
bool zt_rank_sub_group_open(struct zt_rank *r, int g, unsigned use, bool ahead, struct zt_err *err);
/* Writes what `use` says, whole. */
bool zt_rank_sub_group_close(struct zt_rank *r, int g, unsigned use, struct zt_err *err);
/* Waits until everything is written. */
bool zt_rank_sub_groups_finish(struct zt_rank *r, struct zt_err *err);

/* Prepares a transfer of parameters of the file: elements from the first one of piece `piece` on, from the start of
 * their block of the disk, of which *skip elements are not theirs. `to` has room for whole blocks. */
struct zt_aio_transfer zt_rank_param_transfer(const struct zt_rank *r, int piece, int64_t elems, float *to,
                                              int64_t *skip);
struct zt_aio *zt_rank_aio(const struct zt_rank *r);

/* Measures how fast the rank's files are read and written, in bytes a second: reads up to 16 MiB of a file and writes
 * them back, three times; the best counts. 0 without files. Between two steps. */
struct zt_file_rates {
    double read, write;
};
bool zt_rank_measure_files(struct zt_rank *r, struct zt_file_rates *to, struct zt_err *err);

/* Prints where the files of this rank are, and how they are read and written. */
void zt_rank_offload_say(const struct zt_rank *r, const struct zt_log *log);

#endif
