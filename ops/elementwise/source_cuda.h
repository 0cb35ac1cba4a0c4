/* CUDA source of fused elementwise operations, generated from their expressions (pointwise.h): one kernel reads every
 * input once and writes the last result. Needs no device and no CUDA header. */
#ifndef ZT_OPS_ELEMENTWISE_SOURCE_CUDA_H
#define ZT_OPS_ELEMENTWISE_SOURCE_CUDA_H

#include "base/text.h"
#include "ops/elementwise/pointwise.h"

/* Broadcast of an input to the output: it has the same elements, it is one number, or it has strides along the
 * axes. */
enum zt_broadcast_kind { ZT_BROADCAST_ALIKE, ZT_BROADCAST_ONE, ZT_BROADCAST_AXES };

struct zt_kernel_source {
    struct zt_fused_elementwise fused;
    struct zt_kernel_input {
        enum zt_dtype dtype;
        enum zt_broadcast_kind broadcast;
        bool still; /* ZT_BROADCAST_AXES: the same number along the last axis */
    } input[ZT_POINTWISE_INPUTS];
    int axes;  /* that ZT_BROADCAST_AXES walks */
    bool wide; /* places do not fit 32 bits */
    int width; /* vector width: neighbouring elements that a thread computes together, a power of two; they belong to
                  one row of the last axis */
    bool in_place; /* the output may be an input */
    /* The output is transposed: matrices [columns of dim[1], rows of dim[0]], where the inputs, ALIKE or ONE, are
     * [dim[0], dim[1]]. A thread transposes a tile of rows x columns elements, `width` together. 0: the output has
     * the order of the inputs. */
    struct zt_kernel_tile {
        int rows, columns;
        bool whole; /* all rows there are, so that what a tile writes lies together */
    } tile;
};

/* The only argument of the kernel; the source declares the same struct. */
struct zt_kernel_arguments {
    int64_t count; /* of elements */
    int64_t packs; /* packs of `width` elements, at aligned addresses; the remaining elements are computed one by one */
    void *out;
    const void *in[ZT_POINTWISE_INPUTS];
    int64_t dim[ZT_MAX_RANK];                       /* of the axes, outermost first */
    int64_t step[ZT_POINTWISE_INPUTS][ZT_MAX_RANK]; /* of elements */
};

/* Alignment in bytes of a pack of `width` elements. */
static inline size_t zt_pack_alignment(enum zt_dtype dtype, int width) {
    const size_t bytes = zt_dtype_bytes(dtype) * (size_t)width;
    return bytes < 16 ? bytes : 16;
}

/* The kernel's name in the source. */
#define ZT_KERNEL_ENTRY "fused_elementwise"

/* Appends the source to `to`. */
void zt_kernel_source_write(const struct zt_kernel_source *s, struct zt_text *to);

#endif
