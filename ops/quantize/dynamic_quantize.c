/* DynamicQuantizeLinear: uint8 with scale and zero point from the range of x, which includes 0.
 *
 *     scale = (max(x, 0) - min(x, 0)) / 255        1 / 255 where x is 0 everywhere
 *     zero  = round(clip(-min / scale))            y = clip(round(x / scale) + zero)
 *
 * In float; NaN counts neither for the range nor as more than the lowest y. No gradient. */
#include "ops/quantize/kernels.h"
#include "ops/kernel/shape.h"

#include <math.h>

static bool dynamic_infer(struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    const struct zt_shape scalar = { 0 };
    zt_set_out(g, node, 0, ZT_UINT8, &zt_in(g, node, 0)->shape);
    zt_set_out(g, node, 1, ZT_FLOAT, &scalar);
    zt_set_out(g, node, 2, ZT_UINT8, &scalar);
    return true;
}

static float clipped(float x) {
    return !(x > 0) ? 0 : x < 255 ? x : 255;
}

static bool dynamic_ref(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const float *x = call->in[0].data;
    const int64_t count = zt_shape_count(&call->in[0].shape);
    float low = 0, high = 0;
    for (int64_t i = 0; i < count; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    const float scale = (high == low ? 1 : high - low) / 255, zero = rintf(clipped(-low / scale));
    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)call->out[0].data)[i] = (uint8_t)clipped(rintf(x[i] / scale) + zero);
    if (call->out_count > 1 && call->out[1].data)
        *(float *)call->out[1].data = scale;
    if (call->out_count > 2 && call->out[2].data)
        *(uint8_t *)call->out[2].data = (uint8_t)zero;
    return true;
}

const struct zt_op zt_op_dynamic_quantize = {
    .name = "DynamicQuantizeLinear",
    .domain = "",
    .since = 11,
    .min_in = 1,
    .max_in = 1,
    .min_out = 3,
    .max_out = 3,
    .in_types = { ZT_BIT(ZT_FLOAT) },
    .infer = dynamic_infer,
    .kernel = { [ZT_REF] = { .run = dynamic_ref } },
};
