/* Optimizer steps over flat slices in device memory (step.cu), for the CUDA module. Each queues on `stream` and returns
 * the cudaError_t of doing so; arguments as in the loops of adam.c and sgd.c, same bits. */
#ifndef ZT_OPTIM_STEP_CUDA_H
#define ZT_OPTIM_STEP_CUDA_H

#include "optim/step.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

int zt_launch_adam(struct CUstream_st *stream, const struct zt_adam *c, float *p, const float *g, float *m, float *v,
                   int64_t count);
int zt_launch_sgd(struct CUstream_st *stream, const struct zt_sgd *c, float *p, const float *g, int64_t count);
int zt_launch_sgd_momentum(struct CUstream_st *stream, const struct zt_sgd *c, float *p, const float *g, float *b,
                           int64_t count);

/* to[i] += from[i] */
int zt_launch_accumulate(struct CUstream_st *stream, float *to, const float *from, int64_t count);

/* *sum = sum of x[i]^2 in fp64, in an order that depends on count alone. `parts` holds ZT_SQUARE_PARTS doubles; sum may
 * be parts[0]. */
enum { ZT_SQUARE_PARTS = 1024 };
int zt_launch_squares(struct CUstream_st *stream, const float *x, int64_t count, double *parts, double *sum);

#ifdef __cplusplus
}
#endif

#endif
