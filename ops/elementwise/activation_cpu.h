/* Activations of a product's result while it is in cache. oneDNN has some as post-ops, but its ReLU turns NaN into 0,
 * and the others round differently from the elementwise kernels. */
#ifndef ZT_OPS_ELEMENTWISE_ACTIVATION_CPU_H
#define ZT_OPS_ELEMENTWISE_ACTIVATION_CPU_H

#include "graph/ir/graph.h"
#include "ops/elementwise/simd_elementwise.h"

struct zt_activation {
    zt_simd_function *run; /* NULL: none, y is x */
    float u, v;
    bool keeps_zero; /* f(0) = 0 */
};

/* The activation called `name`, with its numbers from the node's attributes; false where it has no loop. */
bool zt_activation_of(const struct zt_node *node, const char *name, struct zt_activation *to);
/* y[i] = f(x[i]), n elements of float or bfloat16; x may be y. */
void zt_activation_run(const struct zt_activation *f, enum zt_dtype dtype, int64_t n, const void *x, void *y);

#endif
