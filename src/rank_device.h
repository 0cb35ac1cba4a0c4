/* A rank on a device whose memory the host cannot touch. The executor goes through here wherever it would read or write
 * the rank's blocks itself; on the host the first two functions are memcpy and the others are not called (r->away is
 * NULL).
 *
 * Beside the five blocks such a rank has a copy of the graph's constants on the device, its fed columns there, and, for
 * nodes that no kernel of the device takes, host memory into which their inputs are brought and from which their
 * outputs go back. */
#ifndef ZT_RANK_DEVICE_H
#define ZT_RANK_DEVICE_H

#include "rank_run.h"

/* From the rank's memory to the host, waiting for it. */
bool zt_rank_fetch(const struct zt_rank *r, void *to, const void *from, size_t bytes, struct zt_err *err);
/* To the rank's memory at `to` from `place` of the rank: `from` is a host address where that is ZT_CONSTANT. */
bool zt_rank_copy(const struct zt_rank *r, void *to, const struct zt_place *place, const void *from, size_t bytes,
                  struct zt_err *err);

/* Bytes of each slot for the columns, the cotangent of the loss and `rows` row weights. */
int64_t zt_rank_device_feed_bytes(int64_t column_bytes, int64_t rows);
/* Points the slot's last two fed values into its feed memory. */
void zt_rank_device_slot(const struct zt_rank *r, struct zt_slot *slot, int64_t rows);
/* Brings them there. */
bool zt_rank_device_feed(const struct zt_rank *r, struct zt_slot *slot, int64_t rows, struct zt_err *err);

/* After programs, slots and pieces are made: refuses what the device cannot do, copies constants, sets aside memory for
 * the nodes that run on the host. */
bool zt_rank_device_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_device_destroy(struct zt_rank *r);
/* Runs a node whose kernel is the host's. */
bool zt_rank_device_run(struct zt_rank *r, const struct zt_slot *slot, struct zt_ready *ready, struct zt_err *err);
/* to[i] += from[i] */
bool zt_rank_device_add(struct zt_rank *r, float *to, const float *from, int64_t count, struct zt_err *err);
/* Sum of squares of the gradients of the owned ranges. */
bool zt_rank_device_squares(struct zt_rank *r, double *sum, struct zt_err *err);
/* The optimizer step on every piece; `of` makes the update of one of them. */
typedef struct zt_update zt_update_of(const void *arg, const struct zt_piece *piece);
bool zt_rank_device_update(struct zt_rank *r, zt_update_of *of, const void *arg, struct zt_err *err);

#endif
