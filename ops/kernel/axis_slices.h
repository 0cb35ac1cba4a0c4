/* A tensor as lines along one axis: [outer, length, inner], a line being `length` elements `inner` apart. Lines may be
 * longer than the stack: kernels read them in runs, anew in each pass. */
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
/* Element where line `line` (of outer * inner) begins. */
static inline int64_t zt_axis_slices_start(const struct zt_axis_slices *l, int64_t line) {
    return line / l->inner * l->length * l->inner + line % l->inner;
}

/* for (at, count): runs of at most ZT_ELEMENT_BLOCK elements of a line of `length` */
#define ZT_EACH_BLOCK(length, at, count)                                                                               \
    for (int64_t at = 0, count = zt_min_int(ZT_ELEMENT_BLOCK, (length)); at < (length);                                \
         at += ZT_ELEMENT_BLOCK, count = zt_min_int(ZT_ELEMENT_BLOCK, (length)-at))

/* One line of one tensor. */
struct zt_axis_slice {
    const struct zt_view *view;
    int64_t start, stride, length;
};
void zt_row_load(const struct zt_axis_slice *l, int64_t at, int64_t count, double *to);
void zt_row_store(const struct zt_axis_slice *l, int64_t at, int64_t count, const double *from);
/* The maximum (NaN where there is one, -infinity of nothing) and the place of the first. */
double zt_row_max(const struct zt_axis_slice *l, int64_t *place);
/* sum of exp(x - shift) */
double zt_row_sum_exp(const struct zt_axis_slice *l, double shift);

#endif
