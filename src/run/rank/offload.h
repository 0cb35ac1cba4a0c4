/* Optimizer states in files (zero_optimization.offload_optimizer, device "nvme").
 *
 * The file holds the state arrays one after the other, each in the order of the pieces. The update goes through the
 * sub-groups in order: a sub-group is read into a buffer, updated, and written back.
 *
 *     buffer 0   read 0   update 0   write 0              read 3 ...
 *     buffer 1            read 1     update 1   write 1          pipeline_read and pipeline_write, depth 3
 *     buffer 2                       read 2     update 2   write 2
 *
 * Sub-groups begin at multiples of 4,096 bytes, so that transfers can bypass the page cache and never share a block of
 * the disk. The numbers do not depend on any of this. */
#ifndef ZT_RUN_RANK_OFFLOAD_H
#define ZT_RUN_RANK_OFFLOAD_H

#include "base/log.h"
#include "run/rank/blocks.h"

/* Divides the pieces into sub-groups, and opens the files and buffers of the plan's offload. All pieces must exist. */
bool zt_rank_offload_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_offload_destroy(struct zt_rank *r);

/* What happens to the states of a sub-group between opening and closing it. */
enum zt_sub_group_use {
    ZT_STATES_READ,    /* they are read only */
    ZT_STATES_UPDATED, /* they are read and written */
    ZT_STATES_FILLED,  /* they are written, all of them */
};
/* Brings the states of sub-group `g` into memory and sets the pointers of its pieces. */
bool zt_rank_sub_group_open(struct zt_rank *r, int g, enum zt_sub_group_use use, struct zt_err *err);
bool zt_rank_sub_group_close(struct zt_rank *r, int g, enum zt_sub_group_use use, struct zt_err *err);
/* Waits until everything is written. */
bool zt_rank_sub_groups_finish(struct zt_rank *r, struct zt_err *err);

/* Prints where the files of this rank are, and how they are read and written. */
void zt_rank_offload_say(const struct zt_rank *r, const struct zt_log *log);

#endif
