/* Shared by the shape rules and reference kernels of many ops: axes and integer lists, which are an attribute in old
 * opsets and an input in new ones; broadcasting. */
#ifndef ZT_OPS_KERNEL_SHAPE_H
#define ZT_OPS_KERNEL_SHAPE_H

#include "graph/passes/grad.h"
#include "graph/ir/op.h"

/* Counts of a row with one output. */
#define ZT_ONE_OUT(least, most) .min_in = (least), .max_in = (most), .min_out = 1, .max_out = 1

/* ---- infer ---- */

/* Output 0 has dtype and shape of input 0. */
bool zt_infer_first(struct zt_graph *g, int node, struct zt_err *err);
/* Output 0 has the dtype of input 0 and the shape all inputs broadcast to. */
bool zt_infer_broadcast(struct zt_graph *g, int node, struct zt_err *err);
/* The same with bool as dtype. */
bool zt_infer_broadcast_bool(struct zt_graph *g, int node, struct zt_err *err);

/* The place of a node's list of integers: input `in` if the node has it (-1: no input), else attribute `attr` (NULL: no
 * attribute). */
struct zt_int_source {
    int in;
    const char *attr;
};
/* Reads the integers; *to->count is -1 where the node has neither input nor attribute. Works in infer and, as the
 * inputs are known since then, in run. */
bool zt_ops_ints(const struct zt_graph *g, int node, struct zt_int_source from, const struct zt_int_list *to,
                 struct zt_err *err);

/* A set of axes of a tensor. */
struct zt_axis_set {
    int count; /* -1: the node names none */
    bool has[ZT_MAX_RANK];
};
/* Reads axes of a tensor of `rank`; an axis out of range or named twice fails. */
bool zt_ops_axes(const struct zt_graph *g, int node, struct zt_int_source from, int rank, struct zt_axis_set *to,
                 struct zt_err *err);
/* The contents of a Constant, of a node that need not be resolved; false of another node. */
bool zt_constant_tensor(const struct zt_node *node, struct zt_tensor *t);
/* Fails where a shape would need more than ZT_MAX_RANK axes. */
bool zt_ops_rank(const struct zt_graph *g, int node, int rank, struct zt_err *err);
/* *to = a * b or a + b of dims, failing where that is beyond 2^62. */
bool zt_ops_dim_product(const struct zt_graph *g, int node, int64_t a, int64_t b, int64_t *to, struct zt_err *err);
bool zt_ops_dim_sum(const struct zt_graph *g, int node, int64_t a, int64_t b, int64_t *to, struct zt_err *err);

/* ---- run ---- */

/* Index of the node that is called. */
static inline int zt_call_node(const struct zt_call *call) {
    return call->node->index;
}
/* Fails naming the node that is called. */
#define zt_call_fail(call, err, ...) zt_node_fail((call)->graph, zt_call_node(call), (err), __VA_ARGS__)

/* Copies input 0 to output 0, whole. */
bool zt_run_copy(const struct zt_call *call, struct zt_err *err);
/* Element `offset` of an array whose elements are `bytes` wide. */
static inline void *zt_element(const void *data, size_t bytes, int64_t offset) {
    return (char *)data + (int64_t)bytes * offset;
}
/* Steps of `of` walked in the broadcast shape `shape`, right-aligned: 0 along broadcast axes. */
void zt_broadcast_steps(const struct zt_shape *shape, const struct zt_shape *of, int64_t step[ZT_MAX_RANK]);
/* Moves a row-major index on by one; false after the last. */
bool zt_next_index(const struct zt_shape *shape, int64_t index[ZT_MAX_RANK]);
/* An index into an axis of `size` elements as ONNX writes it (negative from the end) made 0..size-1; -1 where it is
 * outside. */
static inline int64_t zt_wrap_index(int64_t index, int64_t size) {
    if (index < 0)
        index += size;
    return index < 0 || index >= size ? -1 : index;
}
/* Product of dims [from, to). */
int64_t zt_dims(const struct zt_shape *shape, int from, int to);

/* ---- grad ---- */

/* dx = dy with the shape of x: reshapes, identities. */
bool zt_grad_reshape(struct zt_grad *b, int node, struct zt_err *err);
/* Emits a node of ours with integer-list attributes; ends with a NULL name. Lists are copied. */
struct zt_ints {
    const char *name;
    const int64_t *values;
    int count;
};
int zt_emit_own_ints(struct zt_grad *b, const char *op_type, const int *in, int in_count, const struct zt_node *like,
                     const struct zt_ints *lists);
/* A cast to `dtype`; the value itself where it has that type. */
int zt_emit_cast(struct zt_grad *b, int value, enum zt_dtype dtype);
/* Shape of an input of the node whose rule runs; valid until something is emitted. */
const struct zt_shape *zt_grad_in_shape(struct zt_grad *b, int node, int in);
/* Type of output 0 of the node whose rule runs, which its gradient has too. */
enum zt_dtype zt_grad_dtype(struct zt_grad *b, int node);

#endif
