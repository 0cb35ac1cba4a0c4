/* A rank on a device whose memory the host cannot touch. The executor goes through here wherever it would read or write
 * the rank's blocks itself; on the host these are plain loops and copies, or not called (r->away is NULL).
 *
 * Beside the five blocks such a rank has a copy of the graph's constants on the device, its fed columns there, and, for
 * nodes that no kernel of the device takes, host memory into which their inputs are brought and from which their
 * outputs go back. */
#ifndef ZT_RUN_RANK_DEVICE_MEMORY_H
#define ZT_RUN_RANK_DEVICE_MEMORY_H

#include "data/loader.h"
#include "run/rank/blocks.h"

/* Bytes of each slot for the columns, the cotangent of the loss, and the weights and numbers of `rows` samples. */
int64_t zt_rank_device_feed_bytes(int64_t column_bytes, int64_t rows);
/* Points the slot's last two fed values into its feed memory. */
void zt_rank_device_slot(const struct zt_rank *r, struct zt_slot *slot);
/* Batches lie in pinned memory, from where they are copied. ZT_RANK_HELD of them are the rank's at a time: the copy of
 * the oldest is over by the time the loader has it back, for which zt_rank_device_next waits. */
enum { ZT_RANK_HELD = 2 };
void zt_rank_device_loads(struct zt_rank *r, struct zt_loader_options *options);
/* Bytes that come to the device for a micro-batch of training data, or of evaluation data; 0 on the host. */
int64_t zt_rank_brings(const struct zt_rank *r, bool training);
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
/* Warns, a line for each kind, of nodes whose tensors travel between device and host because the device has no kernel
 * for them. */
void zt_rank_warn(const struct zt_rank *rank, const struct zt_log *log);

#endif
