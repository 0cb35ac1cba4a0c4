/* Optimizer steps over flat slices in device memory, for the CUDA module. Each function queues its kernels on `stream`
 * and returns the cudaError_t of the launch. The bits of an element are those of the host's loop. */
#ifndef ZT_OPTIM_STEP_CUDA_H
#define ZT_OPTIM_STEP_CUDA_H

#include "optim/step.h"
#include "optim/table.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* The kernels of one optimizer. Where the state says that the step is not finite they change nothing. */
struct zt_optimizer_cuda {
    int (*update)(struct CUstream_st *stream, const struct zt_step_call *s);
    /* Before update, for optimizers with trust ratios: advances the moments, sets norms and ratios. NULL for others. */
    int (*norms)(struct CUstream_st *stream, const struct zt_step_call *s);
    /* Optimizers of matrices, whose update() leaves their pieces alone, else NULL: the directions of the pieces of a
     * matrix; then, from the directions of the whole tensor, its update. */
    int (*direct)(struct CUstream_st *stream, const struct zt_step_call *s, const struct zt_step_matrix *m);
    int (*matrix)(struct CUstream_st *stream, const struct zt_step_call *s, const struct zt_step_matrix *m);
};

/* zt_optimizer_cuda_NAME of optim/NAME.cu for each optimizer of the table. */
#define ZT_OPTIMIZER_CUDA(name) extern const struct zt_optimizer_cuda zt_optimizer_cuda_##name;
ZT_OPTIMIZERS(ZT_OPTIMIZER_CUDA)
#undef ZT_OPTIMIZER_CUDA

/* The average of the weights of all pieces: zt_step_average of optim/step.h with `decay`, nothing where the state says
 * that the step is not finite; and the exchange of both. */
int zt_launch_average(struct CUstream_st *stream, const struct zt_step_call *s, double decay);
int zt_launch_swap_average(struct CUstream_st *stream, const struct zt_step_call *s);

/* feed->scaled = feed->seed times the state's loss scale. */
int zt_launch_scale_seed(struct CUstream_st *stream, const struct zt_step_state *state, struct zt_step_feed *feed);
/* zt_step_add_loss and zt_step_clip of optim/step.h. */
int zt_launch_add_loss(struct CUstream_st *stream, struct zt_step_state *state, const float *loss,
                       const double *samples);
int zt_launch_clip(struct CUstream_st *stream, struct zt_step_state *state, double clip);

/* zt_step_norm for at most ZT_SQUARES arrays a launch: squares += the sum of the squares of all numbers in fp64, in an
 * order that depends on the counts alone. The last launch adds the loss and clips. `parts` holds ZT_SQUARE_PARTS
 * doubles, `arrived` is a counter of blocks (base/block.cuh). The launcher sets `blocks` (the number of blocks of the
 * arrays before each) and `slice` (the numbers that a block adds). */
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
