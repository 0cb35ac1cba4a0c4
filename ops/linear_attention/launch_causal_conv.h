/* Launchers of causal_conv.cu: CausalConvWithState (ops/linear_attention/causal_conv.c) and its gradient. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_LINEAR_ATTENTION_LAUNCH_CAUSAL_CONV_H
#define ZT_OPS_LINEAR_ATTENTION_LAUNCH_CAUSAL_CONV_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The geometry of a node (zt_causal_conv_read of causal_conv.h). */
struct zt_launch_causal_conv {
    int64_t batch, channels, length, kernel; /* kernel: at least 1 */
    bool silu;
};

/* bias and past absent: zeros; present may be absent. */
struct zt_launch_causal_conv_tensors {
    struct zt_launch_tensor x, weight, bias, past, y, present;
};
int zt_launch_causal_conv(struct CUstream_st *stream, const struct zt_launch_causal_conv *c,
                          const struct zt_launch_causal_conv_tensors *t);

/* dy and dpresent absent: zeros; every output may be absent. da: batch * channels * length floats. */
struct zt_launch_causal_conv_grad {
    struct zt_launch_tensor x, weight, bias, past, dy, dpresent;
    struct zt_launch_tensor dx, dweight, dbias, dpast;
    float *da;
};
int zt_launch_causal_conv_grad(struct CUstream_st *stream, const struct zt_launch_causal_conv *c,
                               const struct zt_launch_causal_conv_grad *g);

#ifdef __cplusplus
}
#endif

#endif
