/* A rank whose memory blocks are in device memory. The executor calls these functions wherever it reads or writes the
 * blocks; on the host they are plain loops and copies, or are not called (r->device_memory is NULL).
 *
 * Beside its memory blocks, such a rank holds copies of the graph's constants and the input columns in device memory.
 * For nodes without a kernel on the device it has host memory for copies of their inputs and outputs. */
#ifndef ZT_RUN_RANK_DEVICE_MEMORY_H
#define ZT_RUN_RANK_DEVICE_MEMORY_H

#include "data/loader.h"
#include "run/rank/blocks.h"

/* Returns the bytes of each slot for the columns, the gradient of the loss, and the weights and numbers of `rows`
 * samples. */
int64_t zt_rank_device_feed_bytes(int64_t column_bytes, int64_t rows);
/* Sets the slot's last two input addresses to its feed memory. */
void zt_rank_device_slot(const struct zt_rank *r, struct zt_slot *slot);
/* Batches are in pinned memory, from which they are copied. The rank holds at most ZT_RANK_HELD of them;
 * zt_rank_device_next() waits until the copy of the oldest has ended, before the loader reuses it. */
enum { ZT_RANK_HELD = 2 };
/* Sets the allocator of pinned memory and the number of batches in the options of a loader. */
void zt_rank_device_loads(struct zt_rank *r, struct zt_loader_options *options);
/* Returns the bytes that are copied to the device for a micro-batch of training or evaluation data; 0 on the host. */
int64_t zt_rank_fed_bytes(const struct zt_rank *r, bool training);
/* Must be called before the next batch is requested from the loader. */
bool zt_rank_device_next(struct zt_rank *r, struct zt_err *err);
/* Copies a batch to the device, with the slot's seed, samples and row weights. */
bool zt_rank_device_feed(struct zt_rank *r, struct zt_slot *slot, const struct zt_batch *batch,
                         const struct zt_source *source, struct zt_err *err);
/* Called before a step: aligns the double buffers of all slots and returns their side. The work that a step queues
 * depends on the side and on nothing else of earlier steps. */
bool zt_rank_device_align(struct zt_rank *r, int *side, struct zt_err *err);
/* Returns the device address of samples and seed. */
struct zt_step_feed *zt_rank_device_fed(const struct zt_rank *r, const struct zt_slot *slot);

/* Updates r->random on the device if it has changed and a node of the device uses it. */
bool zt_rank_device_point(struct zt_rank *r, struct zt_err *err);

/* Called after programs, slots and pieces exist: reports what the device does not support, copies constants, and
 * allocates memory for nodes that run on the host. */
bool zt_rank_device_create(struct zt_rank *r, struct zt_err *err);
void zt_rank_device_destroy(struct zt_rank *r);
/* Runs a node with a host kernel. */
bool zt_rank_device_run(struct zt_rank *r, const struct zt_slot *slot, struct zt_ready *ready, struct zt_err *err);
/* Prints a warning for each kind of node whose tensors are copied between device and host because the device has no
 * kernel for it. */
void zt_rank_warn(const struct zt_rank *rank, const struct zt_log *log);

#endif
