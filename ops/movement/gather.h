/* Index arithmetic of the Gather and Scatter operators and of their gradients. */
#ifndef ZT_OPS_MOVEMENT_GATHER_H
#define ZT_OPS_MOVEMENT_GATHER_H

#include "ops/movement/combine.h"
#include "ops/movement/launch_gather.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

/* The axis attribute, 0..rank-1 (infer has checked it). */
static inline int zt_gather_axis(const struct zt_node *node, int rank) {
    int64_t axis = zt_attr_int(node, "axis", 0);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* A block of indices of GatherElements or ScatterElements: indices first to first + count - 1 and the elements `offset`
 * of data that they name. `adjacent`: these follow each other, as the indices are equal and the axis is not the last;
 * only offset[0] is set. */
struct zt_elements {
    const struct zt_view *indices;
    int axis;
    bool adjacent;
    int64_t size, stride[ZT_MAX_RANK], first, count, left, offset[ZT_ELEMENT_BLOCK];
};
typedef void zt_elements_function(const struct zt_call *call, const struct zt_elements *block);
/* Calls one(call, block) for all indices (input 1) into a tensor of shape `data`, on all threads. With `apart` blocks
 * come in any order. Else blocks that can name the same element, those of one position of the axes before `axis`, come
 * in the order of the indices. Fails for an index outside data; earlier blocks may have been handled. */
bool zt_elements_each(const struct zt_call *call, const struct zt_shape *data, bool apart, zt_elements_function *one,
                      struct zt_err *err);

/* Elements `first` on of r.from combined into those of r.to that the block names. */
void zt_gather_combine(const struct zt_scatter_reduction *r, const struct zt_elements *block);

/* GatherND and ScatterND: *offset is the first element of the slice of `data` that tuple `at` of the indices (input 1)
 * names, after `batch_dims` shared leading axes. Fails for an index outside data. */
bool zt_gather_tuple(const struct zt_call *call, const struct zt_shape *data, int64_t at, int batch_dims,
                     int64_t *offset, struct zt_err *err);
/* Elements in such a slice. */
int64_t zt_gather_slice(const struct zt_shape *data, const struct zt_shape *indices, int batch_dims);

/* For infer of GatherElements and ScatterElements: ranks agree, and indices fit into data on all other axes. */
bool zt_gather_elements_fit(struct zt_graph *g, int node, const struct zt_shape *data, const struct zt_shape *indices,
                            struct zt_err *err);
/* For infer of GatherND and ScatterND: the shape of the slices of data (input 0) that the tuples of the indices (input
 * 1) name. Fails where the two do not fit. */
bool zt_gather_nd_shape(struct zt_graph *g, int node, int batch_dims, struct zt_shape *shape, struct zt_err *err);

/* Descriptions for CUDA: to a struct zt_launch_elements and a struct zt_launch_tuples. */
bool zt_gather_describe_elements(const struct zt_graph *g, int node, const struct zt_shape *data, enum zt_combine how,
                                 void *to);
bool zt_gather_describe_tuples(const struct zt_graph *g, int node, const struct zt_shape *data, int batch_dims,
                               enum zt_combine how, void *to);

enum { ZT_ANY_INDEX = 1 << ZT_INT32 | 1 << ZT_INT64 };

/* The table of an embedding lookup, a Gather along axis 0: the value whose rows it reads. -1: the node is none. */
int zt_gather_table(const struct zt_graph *g, int node);
/* The attribute of such a node in a training graph that names the row without gradient. */
#define ZT_GATHER_PADDING "padding_idx"

#endif
