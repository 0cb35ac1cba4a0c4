/* Launcher of softmax.cu: Softmax, LogSoftmax, Hardmax and their gradients along one axis. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_SOFTMAX_LAUNCH_SOFTMAX_H
#define ZT_OPS_SOFTMAX_LAUNCH_SOFTMAX_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zt_launch_softmax_rule {
    ZT_LAUNCH_SOFTMAX,
    ZT_LAUNCH_LOG_SOFTMAX,
    ZT_LAUNCH_HARDMAX,
    ZT_LAUNCH_SOFTMAX_GRAD,
    ZT_LAUNCH_LOG_SOFTMAX_GRAD
};
/* A tensor [outer, length, inner]; the axis is the one of `length`. */
struct zt_launch_softmax {
    enum zt_launch_softmax_rule rule;
    int64_t outer, length, inner;
};
/* Forward: y of x = a; b is not read. Gradients: y = dx of a = dy and b = the forward result. */
int zt_launch_softmax(struct CUstream_st *stream, const struct zt_launch_softmax *s, struct zt_launch_tensor a,
                      struct zt_launch_tensor b, struct zt_launch_tensor y);

#ifdef __cplusplus
}
#endif

#endif
