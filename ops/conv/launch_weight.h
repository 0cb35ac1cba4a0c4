/* Launcher of what stands behind a convolution's weight gradient: what conv_weight.cu gives conv_cuda.c. As
 * launch.h says. */
#ifndef ZT_OPS_CONV_LAUNCH_WEIGHT_H
#define ZT_OPS_CONV_LAUNCH_WEIGHT_H

#include "ops/cuda/launch_copy.h"
#include "ops/reduce/launch_reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dw goes from where it was computed to its place, in the order and the type that are wanted, or is added there; db =
 * sums of dy, which is of the type in which dw was computed. dw_from NULL: dw is where it should be; db NULL: not
 * wanted. */
struct zt_launch_weight_end {
    enum zt_dtype dtype, dw_dtype, db_dtype; /* computed, dw's, db's */
    struct zt_launch_strided_copy turn;
    const void *dw_from;
    void *dw;
    bool accumulate; /* dw alone */
    struct zt_launch_reduce sums;
    const void *dy;
    void *db;
    float *partial; /* as zt_launch_reduce has it */
};
/* One launch, or two where the sums do not lie side by side or dw and db differ in type. */
int zt_launch_weight_end(struct CUstream_st *stream, const struct zt_launch_weight_end *end);

#ifdef __cplusplus
}
#endif

#endif
