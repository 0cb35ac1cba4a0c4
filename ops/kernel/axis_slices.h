/* A tensor as slices along one axis: [outer, length, inner], where a slice is `length` elements, `inner` apart. A slice
 * may not fit the stack: kernels read it in blocks of elements, once per pass. */
#ifndef ZT_OPS_KERNEL_AXIS_SLICES_H
#define ZT_OPS_KERNEL_AXIS_SLICES_H

#include "ops/kernel/shape.h"

struct zt_axis_slices {
    int64_t outer, length, inner;
};

/* Along axis `axis` (0..rank-1). */
static inline struct zt_axis_slices zt_axis_slices_along(const struct zt_shape *shape, int axis) {
    return (struct zt_axis_slices){ zt_dims(shape, 0, axis), shape->dim[axis], zt_dims(shape, axis + 1, shape->rank) };
}
/* The first element of slice `slice` (of outer * inner). */
static inline int64_t zt_axis_slices_start(const struct zt_axis_slices *l, int64_t slice) {
    return slice / l->inner * l->length * l->inner + slice % l->inner;
}

/* for (at, count): blocks of at most ZT_ELEMENT_BLOCK elements of a slice of `length`. A macro, as it is a loop head.
 */
#define ZT_EACH_BLOCK(length, at, count)                                                                               \
    for (int64_t at = 0, count = zt_min_int(ZT_ELEMENT_BLOCK, (length)); at < (length);                                \
         at += ZT_ELEMENT_BLOCK, count = zt_min_int(ZT_ELEMENT_BLOCK, (length)-at))

/* One slice of one tensor, and blocks of it read or written as double. */
struct zt_axis_slice {
    const struct zt_view *view;
    int64_t start, stride, length;
};
void zt_row_load(const struct zt_axis_slice *l, int64_t at, int64_t count, double *to);
void zt_row_store(const struct zt_axis_slice *l, int64_t at, int64_t count, const double *from);
/* The maximum (NaN where the slice holds one, -infinity of an empty slice); place: the index of the first. */
double zt_row_max(const struct zt_axis_slice *l, int64_t *place);
/* sum of exp(x - shift) */
double zt_row_sum_exp(const struct zt_axis_slice *l, double shift);

#endif
