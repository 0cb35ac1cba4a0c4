/* Products of rows and a matrix that take in what stands behind them: what their rows and patterns have in common
 * (fuse_linear.c: a bias and another summand; fuse_gelu.c: GELU; fuse_linear_relu.c: ReLU). All axes of x but the last
 * are rows, w is a matrix.
 */
#ifndef ZT_OPS_MATMUL_FUSE_LINEAR_H
#define ZT_OPS_MATMUL_FUSE_LINEAR_H

#include "graph/passes/fusion/fuse.h"
#include "ops/matmul/matmul.h"

/* ---- rows ---- */

extern const struct zt_attr_spec zt_linear_attrs[4]; /* alpha, transA, transB */

/* Fails where inputs 0 and 1 are not rows and a matrix; of a transposed x, no two matrices. */
bool zt_linear_read(const struct zt_graph *g, int node, struct zt_matmul *m, struct zt_err *err);
/* Fails where input 2, if there, is not a number for each of m's columns. */
bool zt_linear_check_bias(const struct zt_graph *g, int node, const struct zt_matmul *m, struct zt_err *err);

/* For reference kernels: the product without what is added, in fp32 (of double: in double), in the arena; and element i
 * of it with the bias at input 2 and the summand at input 3. */
bool zt_linear_product(const struct zt_call *call, struct zt_arena *arena, struct zt_view *to, struct zt_err *err);
double zt_linear_sum(const struct zt_call *call, const struct zt_view *p, int64_t i);

/* ---- patterns ---- */

enum { ZT_LINEAR_BETWEEN = 3 };

/* A node and the nodes behind it that only lay what it makes in other rows. */
struct zt_linear_source {
    int node; /* -1: none */
    int between[ZT_LINEAR_BETWEEN], count;
};

/* What makes input `in` of `node` behind nodes that only lay it in other rows: a Reshape, which in a half type stands
 * between a cast to float and one back. Nothing that rounds, nothing that others read but the input itself where it may
 * be (not `alone`). */
struct zt_linear_source zt_linear_source_of(const struct zt_graph *g, int node, int in, bool alone);

/* Whether the node is a product of rows and a matrix that CUDA's kernels take, its c NULL or a bias. */
bool zt_linear_is_product(const struct zt_graph *g, int node);
/* Whether the value is a number for each column of what `of` is. */
bool zt_linear_is_bias(const struct zt_graph *g, int value, int of);

/* The source and the nodes behind it die. */
void zt_linear_kill(struct zt_graph *g, const struct zt_linear_source *source);
/* A value of the shape that `value` is made of by a Reshape beside node `like`; itself where it has it; -1: failed. */
int zt_linear_reshaped(struct zt_graph *g, const struct zt_op_table *table, int like, int value,
                       const struct zt_shape *shape, struct zt_err *err);
/* A product `op_type` of ztrain takes the place of `node` and of the source that makes what it computes with, whose
 * attributes it has: it makes output 0 of `node`, and `second` where that is not -1. */
bool zt_linear_replace(struct zt_graph *g, const struct zt_op_table *table, int node,
                       const struct zt_linear_source *source, const char *op_type, const int *in, int in_count,
                       int second, struct zt_err *err);

#endif
