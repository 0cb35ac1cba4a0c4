/* Index arithmetic that Gather ops, Scatter ops and their gradients share: where in `data` an index points. */
#ifndef ZT_OPS_MOVEMENT_GATHER_H
#define ZT_OPS_MOVEMENT_GATHER_H

#include "ops/movement/launch_gather.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

/* The axis attribute of a called or gradient node, 0..rank-1 (infer has checked it). */
static inline int zt_gather_axis(const struct zt_node *node, int rank) {
    int64_t axis = zt_attr_int(node, "axis", 0);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* A run of indices of Gather/ScatterElements: elements `first` to first + count - 1 point at `offset` in data. */
struct zt_elements {
    const struct zt_view *indices;
    int axis;
    int64_t size, stride[ZT_MAX_RANK], first, count, left, offset[ZT_ELEMENT_BLOCK];
};
typedef void zt_elements_function(const struct zt_call *call, const struct zt_elements *run);
/* one(call, run) for all indices (input 1) into a tensor of shape `data`, by all threads. apart: runs may come in any
 * order; else those of one place of the axes before the node's `axis`, which alone can point at the same elements, come
 * in theirs. Fails for an index that is outside; runs before it may have been handled. */
bool zt_elements_each(const struct zt_call *call, const struct zt_shape *data, bool apart, zt_elements_function *one,
                      struct zt_err *err);

/* Tuples of Gather/ScatterND: row `at` of `indices` names a slice of `data` behind `batch_dims` shared leading axes. */
bool zt_gather_tuple(const struct zt_call *call, const struct zt_shape *data, const struct zt_view *indices, int64_t at,
                     int batch_dims, int64_t *offset, struct zt_err *err);
/* Elements of such a slice. */
int64_t zt_gather_slice(const struct zt_shape *data, const struct zt_shape *indices, int batch_dims);

/* Infers for Elements: ranks agree, indices fit into data outside the axis. */
bool zt_gather_elements_fit(struct zt_graph *g, int node, const struct zt_shape *data, const struct zt_shape *indices,
                            struct zt_err *err);
/* Shape of the slices that the tuples of `indices` name. */
bool zt_gather_nd_shape(struct zt_graph *g, int node, const struct zt_shape *data, const struct zt_shape *indices,
                        int batch_dims, struct zt_shape *shape, struct zt_err *err);

/* What such nodes tell other back ends: a struct zt_launch_elements and a struct zt_launch_tuples. */
bool zt_gather_describe_elements(const struct zt_graph *g, int node, const struct zt_shape *data, enum zt_combine how,
                                 void *to);
bool zt_gather_describe_tuples(const struct zt_graph *g, int node, const struct zt_shape *data, int batch_dims,
                               enum zt_combine how, void *to);

enum { ZT_ANY_INDEX = 1 << ZT_INT32 | 1 << ZT_INT64 };

#endif
