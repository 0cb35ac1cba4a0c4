/* Launcher of conv_weight.cu: the end of a convolution's weight gradient. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_CONV_LAUNCH_WEIGHT_H
#define ZT_OPS_CONV_LAUNCH_WEIGHT_H

#include "ops/cuda/launch_strided_copy.h"
#include "ops/reduce/launch_reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies dw from where a library computed it to its place, in the wanted order and dtype, or adds it there; and
 * computes db, the sums of dy. */
struct zt_launch_weight_end {
    enum zt_dtype dtype;                     /* of dw_from and dy */
    enum zt_dtype dw_dtype, db_dtype;        /* of the results */
    struct zt_launch_strided_copy transpose; /* dw_from to dw */
    const void *dw_from;                     /* NULL: dw is in its place already */
    void *dw;
    bool accumulate; /* dw += dw_from; db is not accumulated */
    struct zt_launch_reduce sums;
    const void *dy;
    void *db;       /* NULL: not wanted */
    float *partial; /* as zt_launch_reduce takes it */
};
/* One launch; two where the sums are not adjacent or where dw and db differ in dtype. */
int zt_launch_weight_end(struct CUstream_st *stream, const struct zt_launch_weight_end *end);

#ifdef __cplusplus
}
#endif

#endif
