/* The [ZT_CPU] column of elementwise rows. simd_elementwise.h lists the ops with a loop over float vectors,
 * simd_typed.c those with loops over integers and double; the others run the reference.
 *
 * Blocked layouts pass through where all tensors have one shape and padding stays zero. Results are the same bits at
 * any position and thread count, and on every machine with AVX2 or AVX-512: an element is computed by the same
 * operations wherever it lies. */
#ifndef ZT_OPS_ELEMENTWISE_ELEMENTWISE_CPU_H
#define ZT_OPS_ELEMENTWISE_ELEMENTWISE_CPU_H

#include "graph/ir/op.h"
#include "ops/elementwise/simd_elementwise.h"

/* The loop of `op`, a function of one input, its numbers from the node's attributes and whether f(0) = 0; NULL: there
 * is none. */
zt_simd_function *zt_elementwise_loop(const struct zt_node *node, const struct zt_op *op, float number[2],
                                      bool *keeps_zero);

/* The float loop of a node, of enum zt_simd_op (ZT_SIMD_none: it has none), and the numbers u and v of its value. */
int zt_simd_elementwise(const struct zt_graph *g, int node, float number[2]);

/* The functions of ZT_ELEMENTWISE_CPU (struct zt_kernel). Supported are nodes of a loop (above) with a result of at
 * least one element and tensors of float, float16, bfloat16 or bool, and those that simd_typed.c lists with their
 * dtypes; inputs broadcast. `run` does not fail. */
bool zt_elementwise_supports(const struct zt_graph *g, int node);
bool zt_elementwise_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_elementwise_run(const struct zt_call *call, struct zt_err *err);

#define ZT_ELEMENTWISE_CPU                                                                                             \
    { .supports = zt_elementwise_supports, .prepare = zt_elementwise_prepare, .run = zt_elementwise_run }

#endif
