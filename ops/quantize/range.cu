/* Ranges of quantization (formulas: ops/quantize/launch_range.h and range_scale.h). */
#include "ops/quantize/launch_range.h"

#include "ops/cuda/tensor.cuh"

static __global__ void moving_range_kernel(float momentum, struct zt_launch_moving_range_tensors t) {
    float state[3] = { t.state[0], t.state[1], t.state[2] };
    if (t.low && t.high)
        zt_moving_range(state, momentum, *t.low, *t.high);
    for (int i = 0; i < 2; i++)
        if (t.to[i])
            *t.to[i] = zt_moving_range_end(state, i);
    for (int i = 0; t.to[2] && i < 3; i++)
        t.to[2][i] = state[i];
}

int zt_launch_moving_range(cudaStream_t stream, const struct zt_launch_moving_range *m,
                           const struct zt_launch_moving_range_tensors *t) {
    moving_range_kernel<<<1, 1, 0, stream>>>(m->momentum, *t);
    return cudaGetLastError();
}

static __global__ void range_scale_kernel(struct zt_launch_range_scale r, const float *low, const float *high,
                                          float *scale, void *zero) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < r.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        float at;
        const float s = zt_range_scale_of(&r.rule, low[i], high[i], &at);
        const int code = (int)at;
        if (scale)
            scale[i] = s;
        if (!zero)
            continue;
        if (r.type == ZT_INT16 || r.type == ZT_UINT16)
            ((uint16_t *)zero)[i] = (uint16_t)code;
        else
            ((uint8_t *)zero)[i] = (uint8_t)(r.type == ZT_INT4 ? code & 15 : code);
    }
}

int zt_launch_range_scale(cudaStream_t stream, const struct zt_launch_range_scale *r, const float *low,
                          const float *high, float *scale, void *zero) {
    if (r->count)
        range_scale_kernel<<<blocks_for(r->count), BLOCK, 0, stream>>>(*r, low, high, scale, zero);
    return cudaGetLastError();
}
