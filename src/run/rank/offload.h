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

/* What happens to a sub-group while it is in memory. */
enum zt_sub_group_use {
    ZT_READS_STATES = 1,
    ZT_WRITES_STATES = 2,
    ZT_READS_PARAMS = 4,
    ZT_WRITES_PARAMS = 8,
    ZT_READS_GRADIENTS = 16, /* beside a GPU */
    ZT_READS_ALL = ZT_READS_STATES | ZT_READS_PARAMS,
    ZT_WRITES_ALL = ZT_WRITES_STATES | ZT_WRITES_PARAMS,
};
/* A pass over neighbouring pieces on all threads: `body` runs for piece `i` of the rank. */
struct zt_piece_pass {
    unsigned use; /* enum zt_sub_group_use */
    int first, count;
    bool leaves_matrices; /* leaves out the pieces of r->matrices */
    void (*body)(void *arg, int64_t i);
    void *arg;
};
/* Runs the pass over the pieces that the host updates: beside a GPU those that are offloaded, else all. One sub-group
 * after the other is brought into memory as far as it is read, where its pieces point to it, and written as far as
 * `use` says. Writes may still go on: another pass over the same pieces waits for them. */
bool zt_rank_pass(struct zt_rank *r, const struct zt_piece_pass *pass, struct zt_err *err);
/* Waits until everything is written. */
bool zt_rank_sub_groups_finish(struct zt_rank *r, struct zt_err *err);

/* Calls `visit` for every piece, while its sub-group is in memory, and waits until everything is written. */
bool zt_rank_each_piece(struct zt_rank *r, unsigned use,
                        bool (*visit)(void *with, const struct zt_piece *piece, struct zt_err *err), void *with,
                        struct zt_err *err);
/* The same for the pieces of a tensor, whose parameters are read. */
bool zt_rank_each_piece_of(struct zt_rank *r, int tensor,
                           bool (*visit)(void *with, const struct zt_piece *piece, struct zt_err *err), void *with,
                           struct zt_err *err);

/* Prepares a transfer of parameters of the file: elements from the first one of piece `piece` on, from the start of
 * their block of the disk, of which *skip elements are not theirs. `to` has room for whole blocks. */
struct zt_aio_transfer zt_rank_param_transfer(const struct zt_rank *r, int piece, int64_t elems, float *to,
                                              int64_t *skip);
struct zt_aio *zt_rank_aio(const struct zt_rank *r);

/* Prints where the files of this rank are, and how they are read and written. */
void zt_rank_offload_say(const struct zt_rank *r, const struct zt_log *log);

#endif
