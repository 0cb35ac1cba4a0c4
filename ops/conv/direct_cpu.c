/* Our own kernel of 2-D convolutions in place of the primitive of oneDNN (conv_cpu.h). */
#include "ops/conv/conv_cpu.h"

/* Few products a sample; those of a 1 x 1 kernel are in one short sequence anyway. */
static bool is_small(const struct zt_conv *c) {
    const int64_t most = INT64_C(1) << 22;
    return c->window.kernel_elems > 1 && c->m * c->c * c->window.kernel_elems * c->window.out_elems <= most;
}

/* 2-D, one group, whole vectors of channels on both sides, packed as the kernel wants them. */
bool zt_conv_direct_take(struct zt_conv_direct *to, const struct zt_batch_blocks *blocks, const struct zt_conv *c,
                         int64_t samples) {
    struct zt_desc x = zt_dnnl_slot(blocks->whole, ZT_CONV_X), y = zt_dnnl_slot(blocks->whole, ZT_CONV_Y);
    int vector = y.block;
    *to = (struct zt_conv_direct){ .vector = vector, .samples = samples, .total = c->n };
    if (!is_small(c) || x.dtype != ZT_FLOAT || c->window.axes != 2 || c->groups != 1 || x.order != ZT_DESC_BLOCKED ||
        y.order != ZT_DESC_BLOCKED || x.block != vector || c->c % vector || c->m % vector ||
        !zt_dnnl_weight_vector(blocks->whole, ZT_CONV_W, vector))
        return false;
    to->run = zt_simd_conv_kernel(vector);
    to->out_blocks = c->m / vector;
    to->geometry.blocks = c->c / vector;
    for (int a = 0; a < 2; a++) {
        to->geometry.in[a] = c->window.in[a];
        to->geometry.out[a] = c->window.out[a];
        to->geometry.kernel[a] = c->window.kernel[a];
        to->geometry.stride[a] = c->window.stride[a];
        to->geometry.dilation[a] = c->window.dilation[a];
        to->geometry.pad[a] = c->window.pad[a];
    }
    return to->run != NULL;
}

void zt_conv_direct_run(const struct zt_conv_direct *d, int64_t block, void *const *data) {
    static const float no_bias[16];
    const struct zt_simd_conv *g = &d->geometry;
    int64_t rest = d->total - block * d->samples, samples = rest < d->samples ? rest : d->samples;
    int64_t x_sample = g->blocks * g->in[0] * g->in[1] * d->vector, y_plane = g->out[0] * g->out[1] * d->vector;
    int64_t w_block = g->blocks * g->kernel[0] * g->kernel[1] * d->vector * d->vector;
    const float *x = data[ZT_CONV_X], *w = data[ZT_CONV_W], *b = data[ZT_CONV_B];
    float *y = data[ZT_CONV_Y];
    for (int64_t n = 0; n < samples; n++)
        for (int64_t o = 0; o < d->out_blocks; o++)
            d->run(g, x + n * x_sample, w + o * w_block, b ? b + o * d->vector : no_bias,
                   y + (n * d->out_blocks + o) * y_plane);
}
