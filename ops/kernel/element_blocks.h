/* The one dtype mechanism of the reference kernels: elements of any type are read in blocks as double (or int64), the
 * arithmetic is done there, and the results are stored back with one rounding. So a kernel has one loop for every type.
 *
 * Floats (half, bfloat16, float, double) and bool go through double, exactly. Integers go through int64 where the op
 * must be exact over their whole range (uint64 keeps its bits: add, subtract and multiply wrap alike). */
#ifndef ZT_OPS_KERNEL_ELEMENT_BLOCKS_H
#define ZT_OPS_KERNEL_ELEMENT_BLOCKS_H

#include "graph/ir/dtype.h"
#include "graph/ir/op.h"

enum { ZT_ELEMENT_BLOCK = 256 }; /* elements kernels handle at a time: buffers of it live on the stack */

/* to[i] = element offset + i * stride, i < count. Strides may be 0 (broadcasting) or negative. */
void zt_load_block(enum zt_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t count, double *to);
void zt_store_block(enum zt_dtype dtype, void *data, int64_t offset, int64_t stride, int64_t count, const double *from);
void zt_load_block_int(enum zt_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t count,
                       int64_t *to);
void zt_store_block_int(enum zt_dtype dtype, void *data, int64_t offset, int64_t stride, int64_t count,
                        const int64_t *from);

/* Walks the elements of `shape` in row-major order in blocks along the last axis, with the offsets of up to four
 * tensors:
 *
 *     struct zt_walk w;
 *     zt_walk_start(&w, &out_shape, 3);
 *     zt_walk_strides(&w, 0, &a_shape); ...        // broadcast strides of tensor 0 against the shape
 *     while (zt_walk_next(&w))                     // w.count elements from w.offset[k], w.stride[k] apart
 *         ...
 */
struct zt_walk {
    struct zt_shape shape;
    int tensors;
    int64_t step[4][ZT_MAX_RANK]; /* element strides of each tensor */
    int64_t index[ZT_MAX_RANK];
    int64_t offset[4], stride[4];
    int64_t count, left; /* elements of this block; elements not walked yet */
    int64_t limit;       /* longest block, ZT_ELEMENT_BLOCK unless changed after start */
};
void zt_walk_start(struct zt_walk *w, const struct zt_shape *shape, int tensors);
void zt_walk_strides(struct zt_walk *w, int tensor, const struct zt_shape *of); /* numpy broadcasting, right-aligned */
/* After the strides: merges axes, so that the last one is as long as it can be; its strides are 0 or those of a
 * tensor's last axis with more than one element. */
void zt_walk_merge(struct zt_walk *w);
void zt_walk_part(struct zt_walk *w, int64_t first, int64_t count); /* only elements first .. first + count - 1 */
bool zt_walk_next(struct zt_walk *w);

/* Threads to start for `work` elementary operations: one where starting more costs more time than they save. */
static inline int zt_threads_worth(int threads, double work) {
    return threads > 1 && work >= 1 << 16 ? threads : 1;
}

#endif
