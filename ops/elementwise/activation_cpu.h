/* Activations of a product's result while it is in cache. oneDNN has some as post-ops, but its ReLU turns NaN into 0,
 * and the others round differently from the elementwise kernels. */
#ifndef ZT_OPS_ELEMENTWISE_ACTIVATION_CPU_H
#define ZT_OPS_ELEMENTWISE_ACTIVATION_CPU_H

#include "graph/ir/op.h"
#include "ops/elementwise/simd_elementwise.h"

extern const struct zt_op zt_op_relu;

struct zt_activation {
    zt_simd_function *run; /* NULL: none, y is x */
    float u, v;
    bool keeps_zero; /* f(0) = 0 */
};

/* The activation of row `op`, its numbers being the node's attributes; false where there is no loop for it. */
bool zt_activation_of(const struct zt_node *node, const struct zt_op *op, struct zt_activation *to);
/* y[i] = f(x[i]), n elements of float or bfloat16; x may be y. */
void zt_activation_run(const struct zt_activation *f, enum zt_dtype dtype, int64_t n, const void *x, void *y);

#endif
