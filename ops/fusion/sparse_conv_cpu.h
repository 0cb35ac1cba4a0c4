/* Gradients of a convolution with ReLU and max pool from the places that the pool chose: the work is that of one place
 * for each window, a quarter of the convolution's for windows of 2 x 2, less where ReLU stops the gradient. */
#ifndef ZT_OPS_FUSION_SPARSE_CONV_CPU_H
#define ZT_OPS_FUSION_SPARSE_CONV_CPU_H

#include "ops/cpu/blocked_layout.h"
#include "ops/fusion/conv_pool.h"

struct zt_sparse_conv;

/* The share of the convolution's work that they do; 1 where they do not take it. */
double zt_sparse_conv_share(const struct zt_conv_pool *c);
/* dtype: of x, w, dp, p and dx, float or bfloat16; the gradient is computed in float. In the arena; NULL where the
 * kernels do not take the node: groups, dilation along rows, kernel rows of more than 7 inputs, pools that leave more
 * than half of the results, machines without fused multiply-add. */
const struct zt_sparse_conv *zt_sparse_conv_make(struct zt_arena *arena, const struct zt_conv_pool *c,
                                                 enum zt_dtype dtype);

struct zt_sparse_conv_data {
    const void *x, *w;  /* w: plain */
    const void *dp, *p; /* of the pool; NaN in p lets dp through */
    const uint8_t *position;
    float *dw, *db; /* plain, float; NULL: not wanted, nor dx */
    void *dx;
    struct zt_planes x_planes, p_planes; /* places of x and dx; of dp, p and position */
    bool accumulate;                     /* dw is added to */
};
/* Floats of a vector of p. */
int zt_sparse_conv_vector(const struct zt_sparse_conv *s);
/* p_planes: as in the data. */
size_t zt_sparse_conv_bytes(const struct zt_sparse_conv *s, const struct zt_planes *p_planes, int threads);
/* workspace: zt_sparse_conv_bytes, aligned to 64. */
void zt_sparse_conv_run(const struct zt_sparse_conv *s, const struct zt_sparse_conv_data *d, void *workspace,
                        int threads);

#endif
