/* Index arithmetic that Gather ops, Scatter ops and their gradients share: where in `data` an index points. */
#ifndef ZT_OPS_GATHER_H
#define ZT_OPS_GATHER_H

#include "ops/runs.h"
#include "ops/shape.h"

/* The axis attribute of a called or gradient node, 0..rank-1 (infer has checked it). */
static inline int zt_gather_axis(const struct zt_node *node, int rank) {
    int64_t axis = zt_attr_int(node, "axis", 0);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* Walks the indices of Gather/ScatterElements in runs: elements `first` to first + count - 1 point at `offset` in data.
 *
 *     zt_elements_start(&e, &data->shape, indices, axis);
 *     while (zt_elements_next(&e, call, err)) ...         // false also for an index that is outside: err has it
 */
struct zt_elements {
    const struct zt_view *indices;
    int axis;
    int64_t size, stride[ZT_MAX_RANK], first, count, left, offset[ZT_RUN];
};
void zt_elements_start(struct zt_elements *e, const struct zt_shape *data, const struct zt_view *indices, int axis);
bool zt_elements_next(struct zt_elements *e, const struct zt_call *call, struct zt_err *err);

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

enum { ZT_ANY_INDEX = 1 << ZT_INT32 | 1 << ZT_INT64 };

#endif
