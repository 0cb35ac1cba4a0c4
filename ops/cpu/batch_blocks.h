/* One oneDNN primitive run over the chunks of an axis, usually the batch.
 *
 *     256 samples, chunks of 16:   |0..15|16..31| ... |240..255|      one primitive for 16 samples, run 16 times
 *     100 samples, chunks of  7:   |0..6|7..13| ... |91..97|98..99|   a second, smaller one for the tail
 *
 * The cut is a rule of the shape; which thread runs which chunk changes nothing. */
#ifndef ZT_OPS_CPU_BATCH_BLOCKS_H
#define ZT_OPS_CPU_BATCH_BLOCKS_H

#include "ops/cpu/dnnl.h"

enum {
    ZT_BATCH_BLOCKS = 16
}; /* enough for every thread to own some on the machines that train this way, few enough for partial sums */

struct zt_batch_blocks {
    struct zt_dnnl *body, *tail; /* tail NULL: the last chunk is whole */
    int64_t count;
    size_t step[ZT_DNNL_SLOTS]; /* bytes from a chunk's data to the next one's; 0: shared */
};

/* What is done around the primitive on each chunk, while its data are in cache. `data` are the chunk's own. */
struct zt_chunk_work {
    void (*before)(void *arg, int64_t chunk, void *const *data);  /* NULL: nothing */
    void (*instead)(void *arg, int64_t chunk, void *const *data); /* NULL: the primitive */
    void (*after)(void *arg, int64_t chunk, void *const *data);
    void *arg;
    size_t local[ZT_DNNL_SLOTS]; /* not 0: the slot lives in a buffer of the thread, this many bytes each, one after the
                                    other from data[i] */
};

/* Samples of a chunk so that it has at most this many bytes, which stay in the second cache between two passes. */
enum { ZT_BATCH_BLOCK_BYTES = 1 << 19 };
int64_t zt_batch_block_for_cache(int64_t samples, size_t sample_bytes);

/* Elements of a chunk when `total` are cut into at most `pieces`, a multiple of `grain` where there is more than one.
 */
int64_t zt_batch_block_of(int64_t total, int64_t pieces, int64_t grain);

/* `spec` holds the whole tensors; axis[i] says along which axis slot i is cut, -1: not. On success free with
 * zt_batch_blocks_finish. */
bool zt_batch_blocks_make(struct zt_batch_blocks *to, const struct zt_dnnl_spec *spec, const int *axis, int64_t total,
                          int64_t chunk, int threads, struct zt_err *err);
void zt_batch_blocks_finish(struct zt_batch_blocks *chunks);
/* Scratch memory for `threads` threads. */
size_t zt_batch_blocks_scratch(const struct zt_batch_blocks *chunks, int threads);
/* data[i]: slot i of chunk 0. `scratch` has zt_batch_blocks_scratch bytes; work may be NULL. */
bool zt_batch_blocks_run(const struct zt_batch_blocks *chunks, int threads, void *const *data, void *scratch,
                         const struct zt_chunk_work *work, struct zt_err *err);
/* The same for one chunk, whose data these are, on the calling thread of the team. */
bool zt_batch_blocks_run_one(const struct zt_batch_blocks *chunks, int64_t chunk, void *const *data, void *scratch);
/* Whether that was for want of memory. */
bool zt_batch_blocks_starved(const struct zt_batch_blocks *chunks);
/* The error of chunks of which one was false. Returns false. */
bool zt_batch_blocks_failed(const struct zt_batch_blocks *chunks, struct zt_err *err);

#endif
