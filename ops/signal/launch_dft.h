/* Launcher of dft.cu: DFT and STFT by the plan of ops/signal/dft_plan.h. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_SIGNAL_LAUNCH_DFT_H
#define ZT_OPS_SIGNAL_LAUNCH_DFT_H

#include "ops/cuda/launch.h"
#include "ops/signal/dft_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Complex numbers of an array that shared memory holds; longer ones lie in a workspace. */
enum { ZT_LAUNCH_DFT_NEAR = 2048 };

struct zt_launch_dft {
    struct zt_dft_plan plan; /* `numbers` is not read */
    const float *numbers;    /* the tables */
    int64_t rows;            /* complex numbers of an array of a slice */
    int64_t blocks;          /* slices at a time; with arrays in `room` it has 2 * rows complex numbers each */
    float *room;             /* NULL: rows <= ZT_LAUNCH_DFT_NEAR */
};
/* y of x; window: of STFT, or absent. */
int zt_launch_dft(struct CUstream_st *stream, const struct zt_launch_dft *t, struct zt_launch_tensor x,
                  struct zt_launch_tensor window, struct zt_launch_tensor y);

#ifdef __cplusplus
}
#endif

#endif
