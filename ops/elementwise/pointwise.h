/* Elementwise nodes as expressions: what a node computes of one element, as text, for back ends that generate their
 * kernels. The expressions are those of the CPU's loops (simd_elementwise.h, simd_typed.c). */
#ifndef ZT_OPS_ELEMENTWISE_POINTWISE_H
#define ZT_OPS_ELEMENTWISE_POINTWISE_H

#include "ops/elementwise/kernels.h"
#include "graph/ir/op.h"

/* The value is C of a, b and c, the first inputs, and of the numbers u and v. In type float what is stored as a half
 * type, bool or an integer of 8 or 16 bits is made a float first, and functions are named F(id). In other types, which
 * all inputs but a condition have, the words of struct zt_typed_text stand for them. */
struct zt_pointwise {
    const char *value;
    enum zt_dtype dtype; /* that is computed in */
    bool copies;         /* all inputs but input 0 are of `dtype` and are copied without conversion */
    int inputs;          /* how many the expression reads */
    bool folds;          /* the inputs are folded, two at a time: a is the result so far */
    float number[2];     /* u, v */
    float scale;         /* of the result */
};

enum { ZT_POINTWISE_INPUTS = 8, ZT_FUSED_STEPS = 16 }; /* at most */

/* The computation of one element by a kernel, step by step; a single node is one step. Between two steps a value is
 * rounded to the type in which its node would have stored it, so that a fused node gives the bits of its nodes. */
struct zt_fused_elementwise {
    int inputs; /* how many of the node's first inputs the kernel reads */
    int steps;
    struct zt_fused_elementwise_step {
        struct zt_pointwise what;
        int from[ZT_POINTWISE_INPUTS]; /* an input, or `inputs` + an earlier step */
        enum zt_dtype dtype;           /* of the result */
    } step[ZT_FUSED_STEPS];
};

/* The expression of the node; false where it has none for the op, its types, or numbers that are only known at run
 * time. */
bool zt_pointwise_find(const struct zt_graph *g, int node, struct zt_pointwise *to);

/* Whether the first `inputs` inputs are there and of types whose values floats hold. */
bool zt_pointwise_floats(const struct zt_graph *g, int node, int inputs);

/* The column ZT_CUDA of elementwise rows: nodes with an expression. A row whose description is this function may become
 * a step of a fused elementwise node; it describes to a struct zt_fused_elementwise of one step. */
bool zt_pointwise_takes_cuda(const struct zt_graph *g, int node);
bool zt_pointwise_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err);
#define ZT_POINTWISE_CUDA ZT_CUDA_AS(pointwise, zt_pointwise_takes_cuda, zt_pointwise_describe)

#endif
