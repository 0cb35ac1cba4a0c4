/* Weight gradient of a 3 x 3 convolution of few input channels with ReLU and a 2 x 2 max pool: the inputs of a window
 * of the pool are 4 x 4, which a register of 16 floats holds, so that each output channel takes the inputs of its place
 * from there. */
#ifndef ZT_OPS_FUSION_FEW_CHANNELS_GRAD_CPU_H
#define ZT_OPS_FUSION_FEW_CHANNELS_GRAD_CPU_H

#include "ops/cpu/blocked_layout.h"
#include "ops/fusion/conv_pool.h"

struct zt_few_channels_grad;

/* In the arena; NULL where the kernels do not take the node: groups, 16 input channels or more, other kernels, strides,
 * dilation or pools, machines without AVX-512. */
const struct zt_few_channels_grad *zt_few_channels_grad_make(struct zt_arena *arena, const struct zt_conv_pool *c);

struct zt_few_channels_grad_data {
    const float *x;      /* plain */
    const float *dp, *p; /* of the pool; NaN in p lets dp through */
    const uint8_t *position;
    float *dw, *db;            /* plain; NULL: not wanted */
    struct zt_planes p_planes; /* of dp, p and position: blocks of zt_few_channels_grad_vector or a multiple */
    bool accumulate;           /* dw is added to */
};
/* Floats of a vector of p. */
int zt_few_channels_grad_vector(const struct zt_few_channels_grad *s);
size_t zt_few_channels_grad_bytes(const struct zt_few_channels_grad *s, int threads);
/* workspace: zt_few_channels_grad_bytes, aligned to 64. */
void zt_few_channels_grad_run(const struct zt_few_channels_grad *s, const struct zt_few_channels_grad_data *d,
                              void *workspace, int threads);

#endif
