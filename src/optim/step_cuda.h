/* Optimizer steps over flat slices in device memory (step.cu), for the CUDA module. Each queues on `stream` and returns
 * the cudaError_t of doing so; the elements' bits are those of the loops of the host. */
#ifndef ZT_OPTIM_STEP_CUDA_H
#define ZT_OPTIM_STEP_CUDA_H

#include "optim/step.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Nothing happens where the state says that the step is not finite. */
int zt_launch_adam(struct CUstream_st *stream, const struct zt_step_call *s); /* AdamW too */
int zt_launch_sgd(struct CUstream_st *stream, const struct zt_step_call *s);  /* with momentum where there is a state */
int zt_launch_lion(struct CUstream_st *stream, const struct zt_step_call *s);
int zt_launch_adagrad(struct CUstream_st *stream, const struct zt_step_call *s);
/* Lamb in two: moments, norms and ratios; weights. */
int zt_launch_lamb_norms(struct CUstream_st *stream, const struct zt_step_call *s);
int zt_launch_lamb(struct CUstream_st *stream, const struct zt_step_call *s);

/* feed->scaled = feed->seed times the state's loss scale. */
int zt_launch_scale_seed(struct CUstream_st *stream, const struct zt_step_state *state, struct zt_step_feed *feed);
/* zt_step_add_loss and zt_step_clip of optim/step.h. */
int zt_launch_add_loss(struct CUstream_st *stream, struct zt_step_state *state, const float *loss,
                       const double *samples);
int zt_launch_clip(struct CUstream_st *stream, struct zt_step_state *state, double clip);

/* zt_step_norm in a launch for ZT_SQUARES arrays: squares += sum of the squares of all numbers in fp64, in an order
 * that depends on the counts alone. The loss and the clipping are the last launch's. `parts` holds ZT_SQUARE_PARTS
 * doubles, `arrived` is a counter of blocks (base/block.cuh); `blocks` and `slice` are the launcher's own: the blocks
 * of those before each, and the numbers of a block. */
enum { ZT_SQUARE_PARTS = 1024, ZT_SQUARES = 96 };
struct zt_launch_step_norm {
    struct zt_step_norm of; /* its list is not read */
    int count;
    struct zt_floats at[ZT_SQUARES];
    double *parts;
    unsigned *arrived;
    unsigned blocks[ZT_SQUARES + 1];
    int64_t slice;
};
int zt_launch_step_norm(struct CUstream_st *stream, struct zt_launch_step_norm *x);

#ifdef __cplusplus
}
#endif

#endif
