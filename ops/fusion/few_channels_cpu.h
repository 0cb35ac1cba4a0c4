/* A convolution of few input channels, with ReLU and a 2 x 2 max pool, as first layers are, or of a number of them that
 * is no multiple of a vector: blocked layouts would fill a quarter of the input's vectors with zeros, or more. */
#ifndef ZT_OPS_FUSION_FEW_CHANNELS_CPU_H
#define ZT_OPS_FUSION_FEW_CHANNELS_CPU_H

#include "ops/cpu/blocked_layout.h"
#include "ops/fusion/conv_pool.h"

struct zt_few_channels;

/* `channels`: of p in its layout, padding included. In the arena; NULL where the kernels do not take the node: groups,
 * other than two spatial axes, input channels that fill whole vectors, other pools, machines without fused
 * multiply-add. */
const struct zt_few_channels *zt_few_channels_make(struct zt_arena *arena, const struct zt_conv_pool *c,
                                                   int64_t channels);

struct zt_few_channels_data {
    const float *x, *w, *bias; /* plain; bias NULL: none */
    float *p;
    uint8_t *position;
    struct zt_planes p_planes; /* of p and position: blocks of zt_few_channels_vector or a multiple */
};
/* Floats of a vector of p. */
int zt_few_channels_vector(const struct zt_few_channels *s);
size_t zt_few_channels_bytes(const struct zt_few_channels *s, int threads);
/* workspace: zt_few_channels_bytes, aligned to 64. */
void zt_few_channels_run(const struct zt_few_channels *s, const struct zt_few_channels_data *d, void *workspace,
                         int threads);

#endif
