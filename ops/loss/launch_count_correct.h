/* Launcher of count_correct.cu: CountCorrect (ops/loss/loss.c). Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_LOSS_LAUNCH_COUNT_CORRECT_H
#define ZT_OPS_LOSS_LAUNCH_COUNT_CORRECT_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x is [outer, length, inner], a row of `length` classes a pair (outer, inner). */
struct zt_launch_count {
    int64_t outer, length, inner;
    int64_t samples; /* entries of row_weight */
    int64_t ignore;  /* target of rows that do not count */
};
struct zt_launch_counts {
    int32_t *counts;   /* workspace of two numbers a row */
    unsigned *arrived; /* a zeroed counter of the device (device/cuda.h) */
    float *correct;    /* rows whose target is the index of their largest element */
    float *counted;    /* rows that count; may be NULL */
};
/* target: int32 or int64. Rows of weight 0 do not count; row_weight absent: all rows count. */
int zt_launch_count_correct(struct CUstream_st *stream, const struct zt_launch_count *c, struct zt_launch_tensor x,
                            struct zt_launch_tensor target, struct zt_launch_tensor row_weight,
                            const struct zt_launch_counts *to);

#ifdef __cplusplus
}
#endif

#endif
