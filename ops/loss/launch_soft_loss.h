/* Launchers of soft_loss.cu: cross-entropy over class probabilities as ops/loss/soft_loss.c defines it. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_LOSS_LAUNCH_SOFT_LOSS_H
#define ZT_OPS_LOSS_LAUNCH_SOFT_LOSS_H

#include "ops/loss/launch_class_loss.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of struct zt_launch_loss, `target` holds probabilities of target_dtype, laid out like x; `room`, `ignore`, `mean`,
 * `none`, `logs` and `own` are not read. lse receives log(sum(exp(x))) of every row; NULL: not wanted. Workspace:
 * zt_launch_loss_bytes(). */
int zt_launch_soft_loss(struct CUstream_st *stream, const struct zt_launch_loss *l, void *loss, float *lse,
                        void *workspace);
int zt_launch_soft_loss_grad(struct CUstream_st *stream, const struct zt_launch_loss *l, const void *dloss,
                             const float *lse, void *dx, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
