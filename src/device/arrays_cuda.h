/* Kernel launches over arrays in device memory (arrays.cu), for the CUDA module. Each function queues its kernel on
 * `stream` and returns the cudaError_t of the launch. */
#ifndef ZT_DEVICE_ARRAYS_CUDA_H
#define ZT_DEVICE_ARRAYS_CUDA_H

#include "device/device.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct zt_half_cast;

/* to[i] += from[i] */
int zt_launch_accumulate(struct CUstream_st *stream, float *to, const float *from, int64_t count);

/* The functions of half_arrays.h over arrays in device memory. */
int zt_launch_narrow(struct CUstream_st *stream, uint16_t *to, const float *from, int64_t count,
                     const struct zt_half_cast *cast);
int zt_launch_widen(struct CUstream_st *stream, float *to, const uint16_t *from, int64_t count,
                    const struct zt_half_cast *cast);
int zt_launch_accumulate_half(struct CUstream_st *stream, float *to, const float *from, int64_t count, bool fp16);

/* Non-overlapping copies; a launch takes at most ZT_COPIES. */
enum { ZT_COPIES = 128 };
struct zt_launch_copies {
    int count;
    struct zt_copy at[ZT_COPIES];
};
int zt_launch_copies(struct CUstream_st *stream, const struct zt_launch_copies *copies);

/* Non-overlapping casts. The launcher fills `blocks`, the cumulative number of blocks. */
enum { ZT_CASTS = 96 };
struct zt_launch_casts {
    int count;
    bool fp16; /* to float16, otherwise to bfloat16 */
    struct zt_cast at[ZT_CASTS];
    unsigned blocks[ZT_CASTS + 1];
};
int zt_launch_casts(struct CUstream_st *stream, struct zt_launch_casts *casts);

/* Non-overlapping gathers. The launcher fills `blocks`, `width` (bytes of a sample for each thread at a time) and
 * `parts` (number of such pieces in a sample). */
enum { ZT_GATHERS = 24 };
struct zt_launch_gathers {
    int count;
    struct zt_gather at[ZT_GATHERS];
    unsigned blocks[ZT_GATHERS + 1];
    uint32_t width[ZT_GATHERS];
    int64_t parts[ZT_GATHERS];
};
int zt_launch_gathers(struct CUstream_st *stream, struct zt_launch_gathers *gathers);

#ifdef __cplusplus
}
#endif

#endif
