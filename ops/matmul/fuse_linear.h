/* Linear layers with an epilogue: functions that their rows and fusion patterns share. A linear layer multiplies x, all
 * axes but the last as rows, by a matrix w. The epilogues are a bias and a residual (fuse_linear.c), GELU (fuse_gelu.c)
 * and ReLU (fuse_linear_relu.c). */
#ifndef ZT_OPS_MATMUL_FUSE_LINEAR_H
#define ZT_OPS_MATMUL_FUSE_LINEAR_H

#include "graph/passes/fusion/fuse.h"
#include "ops/matmul/matmul.h"

/* ---- rows ---- */

extern const struct zt_attr_spec zt_linear_attrs[4]; /* alpha, transA, transB */

/* The geometry of inputs 0 and 1. Fails where w is no matrix, or x is transposed and no matrix. */
bool zt_linear_read(const struct zt_graph *g, int node, struct zt_matmul *m, struct zt_err *err);
/* Fails where the node has an input 2 that is no bias: one number for each column of the result. */
bool zt_linear_check_bias(const struct zt_graph *g, int node, const struct zt_matmul *m, struct zt_err *err);

/* For reference kernels. The first function computes the product without bias and residual in fp32 (double: in double),
 * to memory of the arena. The second gives element i of it with the bias (input 2) and the residual (input 3) added. */
bool zt_linear_product(const struct zt_call *call, struct zt_arena *arena, struct zt_view *to, struct zt_err *err);
double zt_linear_sum(const struct zt_call *call, const struct zt_view *p, int64_t i);

/* ---- patterns ---- */

enum { ZT_LINEAR_BETWEEN = 3 };

/* A node, and the nodes after it that only reshape or cast its result. */
struct zt_linear_source {
    int node; /* -1: none */
    int between[ZT_LINEAR_BETWEEN], count;
};

/* The node that computes input `in` of `node`, before nodes that only reshape it: a Reshape, in a half type between a
 * cast to float and a cast back. None of these nodes rounds. Other nodes may read the input itself unless `alone` is
 * set, and nothing before it. */
struct zt_linear_source zt_linear_source_of(const struct zt_graph *g, int node, int in, bool alone);

/* Whether the node is a linear layer that the CUDA kernels take, without c or with a bias as c. */
bool zt_linear_is_product(const struct zt_graph *g, int node);
/* Whether `value` has one number for each column of the value `of`. */
bool zt_linear_is_bias(const struct zt_graph *g, int value, int of);

/* Removes the source and the nodes after it. */
void zt_linear_kill(struct zt_graph *g, const struct zt_linear_source *source);
/* `value` in another shape, by a Reshape in the place of node `like`; `value` itself where it has that shape. -1:
 * failed. */
int zt_linear_reshaped(struct zt_graph *g, const struct zt_op_table *table, int like, int value,
                       const struct zt_shape *shape, struct zt_err *err);
/* A linear layer of domain ztrain. */
struct zt_linear_node {
    const char *op_type;
    const int *in;
    int in_count;
    int second; /* value of its output 1, -1: none */
};
/* Replaces `node` and its source by `with`, which gets the source's attributes and output 0 of `node`. */
bool zt_linear_replace(struct zt_graph *g, const struct zt_op_table *table, int node,
                       const struct zt_linear_source *source, const struct zt_linear_node *with, struct zt_err *err);

#endif
