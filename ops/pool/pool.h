/* Pooling: the geometry of a node, read from its shapes and attributes. The rows of pool.c and the kernels of all back
 * ends use it. */
#ifndef ZT_OPS_POOL_POOL_H
#define ZT_OPS_POOL_POOL_H

#include "ops/kernel/window.h"

/* Shapes: x [planes, window.in], y [planes, window.out]. */
struct zt_pool {
    struct zt_window window;
    int64_t planes;
    bool count_include_pad; /* average pooling divides by positions in the padding too, but not by those that ceil_mode
                               adds */
};

/* MaxPool, ztrain.MaxPoolTrain, AveragePool, LpPool: from the shape of the input. */
bool zt_pool_read(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err);
/* GlobalMaxPool, GlobalAveragePool, GlobalLpPool: one window over the whole plane. */
bool zt_pool_read_global(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err);
/* ztrain.MaxPoolGrad(dy, position), AveragePoolGrad(dy), SumPoolGrad(dy): from attribute input_shape. */
bool zt_pool_read_grad(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err);

/* Number of the window's positions along axis `a` at result `o` that lie inside the input (or its padding). */
int64_t zt_pool_count(const struct zt_pool *p, int a, int64_t o);

/* Whether the CUDA kernels take the node: float or half types, up to three spatial axes, no empty input. */
bool zt_pool_takes_cuda(const struct zt_graph *g, int node);

#endif
