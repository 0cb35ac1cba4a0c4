/* A rank on a device whose memory the host cannot touch. The executor goes through here wherever it would read or write
 * the rank's blocks itself; on the host these are plain loops and copies, or not called (r->away is NULL).
 *
 * Beside the five blocks such a rank has a copy of the graph's constants on the device, its fed columns there, and, for
 * nodes that no kernel of the device takes, host memory into which their inputs are brought and from which their
 * outputs go back. */
#ifndef ZT_RUN_DEVICE_MEMORY_H
#define ZT_RUN_DEVICE_MEMORY_H

#include "run/rank_run.h"

/* From the rank's memory to the host, waiting for it. */
bool zt_rank_fetch(const struct zt_rank *r, void *to, const void *from, size_t bytes, struct zt_err *err);

/* Bytes of each slot for the columns, the cotangent of the loss, and the weights and numbers of `rows` samples. */
int64_t zt_rank_device_feed_bytes(int64_t column_bytes, int64_t rows);
/* Points the slot's last two fed values into its feed memory. */
void zt_rank_device_slot(const struct zt_rank *r, struct zt_slot *slot);
/* Batches lie in pinned memory, from where they are copied. ZT_RANK_HELD of them are the rank's at a time: the copy of
 * the oldest is over by the time the loader has it back, for which zt_rank_device_next waits. */
enum { ZT_RANK_HELD = 2 };
void zt_rank_device_loads(struct zt_rank *r, struct zt_loader_options *options);
/* Before the loader is asked for the next. */
bool zt_rank_device_next(struct zt_rank *r, struct zt_err *err);
/* Brings a batch there, with the slot's seed, samples and row weights. */
bool zt_rank_device_feed(struct zt_rank *r, struct zt_slot *slot, const struct zt_batch *batch,
                         const struct zt_source *source, struct zt_err *err);
/* Before a step: the side of their memory that the batches of all slots lie on. What the step queues depends on it, and
 * on nothing else of the steps before. */
bool zt_rank_device_align(struct zt_rank *r, int *side, struct zt_err *err);
/* Where it has brought samples and seed. */
struct zt_step_feed *zt_rank_device_fed(const struct zt_rank *r, const struct zt_slot *slot);

/* Tells the device r->random where that has changed, if a node there draws. */
bool zt_rank_device_point(struct zt_rank *r, struct zt_err *err);

/* After programs, slots and pieces are made: refuses what the device cannot do, copies constants, sets aside memory for
 * the nodes that run on the host. */
bool zt_rank_device_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_device_destroy(struct zt_rank *r);
/* Runs a node whose kernel is the host's. */
bool zt_rank_device_run(struct zt_rank *r, const struct zt_slot *slot, struct zt_ready *ready, struct zt_err *err);
/* to[i] += from[i], in the rank's memory */
/* Copies that do not overlap within the rank's memory. */
bool zt_rank_copy_all(struct zt_rank *r, const struct zt_copy *copies, int count, struct zt_err *err);
bool zt_rank_add(struct zt_rank *r, float *to, const float *from, int64_t count, struct zt_err *err);

/* ---- the step (device_step.c): each queues its part and none waits, but for other ranks ---- */

bool zt_rank_stepping_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_stepping_destroy(struct zt_rank *r);
bool zt_rank_stepping_begin(struct zt_rank *r, bool tail, struct zt_err *err); /* tail: the last of an epoch */
/* Before the forward phase of a micro-batch with a loss: scales its seed where the loss is scaled. */
bool zt_rank_stepping_seed(struct zt_rank *r, const struct zt_slot *slot, struct zt_err *err);
/* Adds a micro-batch's loss, which lies in the rank's memory; that of the last one with the norm. */
bool zt_rank_stepping_loss(struct zt_rank *r, const struct zt_slot *slot, const float *loss, bool last,
                           struct zt_err *err);
/* Of several ranks r->scalars holds the requests already, and their sums afterwards. */
bool zt_rank_stepping_clip(struct zt_rank *r, struct zt_err *err);
bool zt_rank_stepping_update(struct zt_rank *r, struct zt_err *err);
bool zt_rank_stepping_end(struct zt_rank *r, struct zt_err *err);
/* Waits for the oldest step that was ended and not read: its loss, norm, rate and whether it was finite. */
bool zt_rank_stepping_read(struct zt_rank *r, struct zt_step_result *result, struct zt_err *err);

/* Places in a block begin at multiples of 64 bytes. */
static inline size_t zt_rank_round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

#endif
