/* Bundles: how vector kernels walk axis slices of a tensor, several slices or several elements per vector. The
 * families' vector loops (ops/softmax/simd_softmax.h, ops/norm/simd_norm.h, ops/loss/simd_loss.h) work on one bundle
 * per call. Tensors are float, bfloat16 or float16; all arithmetic is in float, and long sums are taken in parts.
 * Results depend on the slice alone. */
#ifndef ZT_OPS_CPU_SIMD_ROWS_H
#define ZT_OPS_CPU_SIMD_ROWS_H

#include "ops/kernel/axis_slices.h"

/* The input of one call: `count` vectors, `step` elements apart.
 *
 *     across     one slice of neighbouring elements; the last vector uses `last` elements
 *     else       up to `each` slices side by side; element i of every vector belongs to slice i
 *
 * A number per slice (max, sum ...) is one float where `across` is set, else one float per vector element. */
struct zt_bundle {
    enum zt_dtype dtype; /* of the tensors */
    bool across;
    int64_t count, step;
    int each, last; /* elements in use: of all vectors but the last, and of the last */
};

/* Whether the vector kernels take tensors of this type. */
bool zt_row_type(enum zt_dtype dtype);

/* The bundles of a tensor, in blocks that threads take. */
struct zt_bundles {
    struct zt_axis_slices slices;
    int64_t blocks;               /* bundles side by side: 1 where inner is 1 */
    int64_t count;                /* bundles */
    int64_t grain;                /* bundles per block of work */
    struct zt_bundle whole, edge; /* edge: the last of the bundles side by side */
};
/* vector: floats of a vector. */
struct zt_bundles zt_bundles_of(const struct zt_axis_slices *slices, enum zt_dtype dtype, int vector);
/* Bundle i; start: its first element in the tensor; slice: the number of its first slice. */
struct zt_bundle zt_bundle_at(const struct zt_bundles *all, int64_t i, int64_t *start, int64_t *slice);
/* one(with, bundle, start, slice) for every bundle, on at most `threads` threads. */
typedef void zt_bundle_function(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice);
void zt_bundles_each(const struct zt_bundles *all, int threads, zt_bundle_function *one, const void *with);
/* Blocks of work of `grain` bundles. */
static inline int64_t zt_bundle_blocks(const struct zt_bundles *all) {
    return (all->count + all->grain - 1) / all->grain;
}

#endif
