/* Runs one oneDNN primitive over the blocks of an axis, usually the batch.
 *
 *     256 samples, blocks of 16:   |0..15|16..31| ... |240..255|      one primitive for 16 samples, run 16 times
 *     100 samples, blocks of  7:   |0..6|7..13| ... |91..97|98..99|   a second, smaller one for the tail
 *
 * The shape alone determines the blocks; the assignment of blocks to threads changes no result. */
#ifndef ZT_OPS_CPU_BATCH_BLOCKS_H
#define ZT_OPS_CPU_BATCH_BLOCKS_H

#include "ops/cpu/dnnl.h"

/* Enough for every thread of a usual machine to own some, few enough for partial sums. */
enum { ZT_BATCH_BLOCKS = 16 };

struct zt_batch_blocks {
    struct zt_dnnl *whole, *tail; /* the primitives of whole blocks and of a shorter last one; tail NULL: none */
    int64_t count;
    size_t step[ZT_DNNL_SLOTS]; /* bytes from a block's data to the next one's; 0: shared */
};

/* Work around the primitive on each block, while its data are in cache. data: the slots of this block. */
struct zt_batch_block_work {
    void (*before)(void *arg, int64_t block, void *const *data);  /* NULL: nothing */
    void (*instead)(void *arg, int64_t block, void *const *data); /* NULL: the primitive */
    void (*after)(void *arg, int64_t block, void *const *data);
    void *arg;
    size_t local[ZT_DNNL_SLOTS]; /* not 0: the slot lives in a buffer of the thread, this many bytes each, one after the
                                    other from data[i] */
};

/* Samples of a block of at most ZT_BATCH_BLOCK_BYTES, which stay in the second cache between two passes. */
enum { ZT_BATCH_BLOCK_BYTES = 1 << 19 };
int64_t zt_batch_block_for_cache(int64_t samples, size_t sample_bytes);

/* Elements of a block where `total` elements are divided into at most `pieces` blocks; a multiple of `grain` where
 * there are several. */
int64_t zt_batch_block_of(int64_t total, int64_t pieces, int64_t grain);

/* Division of tensors: axis[i] of slot i (-1: not divided), which has `total` elements, into blocks of `block`. */
struct zt_batch_cut {
    int axis[ZT_DNNL_SLOTS];
    int64_t total, block;
};
/* Creates the primitives for the blocks; `spec` describes the whole tensors. On success free with
 * zt_batch_blocks_finish. */
bool zt_batch_blocks_make(struct zt_batch_blocks *to, const struct zt_dnnl_spec *spec, const struct zt_batch_cut *cut,
                          int threads, struct zt_err *err);
void zt_batch_blocks_finish(struct zt_batch_blocks *blocks);
/* Scratch bytes of `threads` threads. */
size_t zt_batch_blocks_scratch(const struct zt_batch_blocks *blocks, int threads);
/* Runs all blocks. data[i]: slot i of block 0. `scratch` has zt_batch_blocks_scratch bytes; work may be NULL. */
bool zt_batch_blocks_run(const struct zt_batch_blocks *blocks, int threads, void *const *data, void *scratch,
                         const struct zt_batch_block_work *work, struct zt_err *err);
/* Runs one block on the calling thread of the team; data: the slots of this block. False where oneDNN fails. */
bool zt_batch_blocks_run_one(const struct zt_batch_blocks *blocks, int64_t block, void *const *data, void *scratch);
/* Whether a run failed for want of memory. */
bool zt_batch_blocks_starved(const struct zt_batch_blocks *blocks);
/* Writes the error of a failed run; returns false. */
bool zt_batch_blocks_failed(const struct zt_batch_blocks *blocks, struct zt_err *err);

#endif
