/* Launchers of element_loss.cu: losses of single elements as ops/loss/element_loss.c defines them. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_LOSS_LAUNCH_ELEMENT_LOSS_H
#define ZT_OPS_LOSS_LAUNCH_ELEMENT_LOSS_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum zt_launch_term { ZT_TERM_SQUARED, ZT_TERM_ABSOLUTE, ZT_TERM_SMOOTH, ZT_TERM_HUBER, ZT_TERM_BINARY };
/* x and target are [rows, width]; weight has an entry a row. */
struct zt_launch_element_loss {
    enum zt_launch_term term;
    enum zt_dtype dtype, target_dtype, weight_dtype, dloss_dtype; /* target: float, half, bool, uint8, int32, int64 */
    int64_t rows, width;
    float bend;                      /* beta of the smooth term, delta of Huber's */
    const void *x, *target, *weight; /* weight NULL: 1 */
};
enum { ZT_ELEMENT_LOSS_PARTS = 128 };
enum { ZT_ELEMENT_LOSS_BYTES = (2 * ZT_ELEMENT_LOSS_PARTS + 2) * sizeof(double) }; /* of workspace */
int zt_launch_element_loss(struct CUstream_st *stream, const struct zt_launch_element_loss *l, void *loss,
                           void *workspace);
int zt_launch_element_loss_grad(struct CUstream_st *stream, const struct zt_launch_element_loss *l, const void *dloss,
                                void *dx, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
