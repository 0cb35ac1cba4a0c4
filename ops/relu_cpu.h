/* ReLU in place on what a product just left in cache. oneDNN has it as a post-op, but that turns NaN into 0. */
#ifndef ZT_OPS_RELU_CPU_H
#define ZT_OPS_RELU_CPU_H

#include "graph/dtype.h"

/* y = max(y, 0), NaN stays; n elements of float or bfloat16. */
void zt_relu_cpu(enum zt_dtype dtype, int64_t n, void *y);

#endif
