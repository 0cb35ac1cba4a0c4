/* Launchers of class_loss.cu: cross entropy and negative log likelihood as ops/loss/class_loss.c defines them.
 * Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_LOSS_LAUNCH_CLASS_LOSS_H
#define ZT_OPS_LOSS_LAUNCH_CLASS_LOSS_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x is [outer, classes, inner], one row of classes a pair (outer, inner). A target that is no class makes the loss and
 * the row's gradient NaN. */
struct zt_launch_loss {
    enum zt_dtype dtype;                    /* of x, dx and log p */
    enum zt_dtype loss_dtype;               /* of the loss or of its gradient */
    enum zt_dtype target_dtype;             /* ZT_INT32, ZT_INT64 */
    enum zt_dtype row_dtype, class_dtype;   /* of the weights */
    int64_t outer, classes, inner, samples; /* row r has row weight r * samples / (outer * inner) */
    int64_t room;                           /* distance of two rows of x, at least classes; dx is 0 behind a row */
    int64_t ignore;
    float smoothing;
    bool mean, none; /* reduction; neither: sum */
    bool logs;       /* x is log p */
    bool own;        /* an op of domain ztrain: row weights come behind the target; a mean of no rows is 0, not 0 / 0 */
    const void *x, *target, *row_weight, *class_weight; /* weights NULL: 1 */
};
/* Bytes of workspace of every launcher below. */
static inline size_t zt_launch_loss_bytes(const struct zt_launch_loss *l) {
    return (size_t)(2 * l->outer * l->inner + 2) * sizeof(double);
}
/* lse: log(sum(exp(x))) of every row. lse and log_p [outer, classes, inner] may be NULL. */
int zt_launch_cross_entropy(struct CUstream_st *stream, const struct zt_launch_loss *l, void *loss, float *lse,
                            void *log_p, void *workspace);
/* lse is not read where x is log p. dx may be x. */
int zt_launch_cross_entropy_grad(struct CUstream_st *stream, const struct zt_launch_loss *l, const void *dloss,
                                 const float *lse, void *dx, void *workspace);
/* Loss and gradient of ops of domain ztrain. dx may be x. */
int zt_launch_cross_entropy_train(struct CUstream_st *stream, const struct zt_launch_loss *l, const void *dloss,
                                  void *loss, void *dx, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
