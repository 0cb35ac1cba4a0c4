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
/* Lamb in three: moments and norms, ratios from the norms, weights. */
int zt_launch_lamb_norms(struct CUstream_st *stream, const struct zt_step_call *s);
int zt_launch_lamb_ratios(struct CUstream_st *stream, const struct zt_step_call *s);
int zt_launch_lamb(struct CUstream_st *stream, const struct zt_step_call *s);

/* state->loss += *loss * feed->samples, nothing where there are none; feed->scaled. */
int zt_launch_add_loss(struct CUstream_st *stream, struct zt_step_state *state, const float *loss,
                       struct zt_step_feed *feed);
/* From loss and squares: norm, finite, and the scale that clips to `clip` (0: does not). */
int zt_launch_clip(struct CUstream_st *stream, struct zt_step_state *state, double clip);
/* Counts the update, if there was one; the loss scale of the next step. */
int zt_launch_advance(struct CUstream_st *stream, struct zt_step_state *state);

#ifdef __cplusplus
}
#endif

#endif
