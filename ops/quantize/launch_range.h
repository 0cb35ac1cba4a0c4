/* Launchers of range.cu: ztrain.MovingRange and ztrain.RangeScale (formulas: moving_range.c, range_scale.h).
 * Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_QUANTIZE_LAUNCH_RANGE_H
#define ZT_OPS_QUANTIZE_LAUNCH_RANGE_H

#include "ops/cuda/launch.h"
#include "ops/quantize/range_scale.h"

/* The state after a step with the range [low, high]; low above high: nothing was seen. */
ZT_RANGE void zt_moving_range(float *state, float momentum, float low, float high) {
    const float rest = 1 - momentum;
    if (low > high)
        return;
    state[0] = momentum * state[0] + rest * low;
    state[1] = momentum * state[1] + rest * high;
    state[2] = momentum * state[2] + rest;
}
/* End 0 or 1 of the range that the state has. */
ZT_RANGE float zt_moving_range_end(const float *state, int end) {
    return state[2] > 0 ? state[end] / state[2] : state[end];
}

#ifdef __cplusplus
extern "C" {
#endif

struct zt_launch_moving_range {
    float momentum;
};
/* low and high are those of the step, NULL in evaluation. to[0] and to[1]: the ends; to[2]: the new state. Each of them
 * may be NULL. */
struct zt_launch_moving_range_tensors {
    const float *state, *low, *high;
    float *to[3];
};
int zt_launch_moving_range(struct CUstream_st *stream, const struct zt_launch_moving_range *m,
                           const struct zt_launch_moving_range_tensors *t);

struct zt_launch_range_scale {
    int64_t count;
    enum zt_dtype type; /* of zero points */
    struct zt_range_scale rule;
};
int zt_launch_range_scale(struct CUstream_st *stream, const struct zt_launch_range_scale *r, const float *low,
                          const float *high, float *scale, void *zero);

#ifdef __cplusplus
}
#endif

#endif
