/* Vector loops of convolutions with few channels. Few of the result: a vector holds channels of the input, and the
 * products of some adjacent results are summed in a vector each, whose elements are added at the end. Few of the input:
 * a vector holds channels of the result. Chosen by CPUID. */
#ifndef ZT_OPS_CONV_SIMD_TAPS_H
#define ZT_OPS_CONV_SIMD_TAPS_H

#include <stdint.h>

enum { ZT_TAPS_RESULTS = 4, ZT_TAPS_VECTORS = 2 }; /* channels, vectors that a function makes at most */

/* Adjacent results of a row whose windows are inside the plane. */
struct zt_taps_row {
    const float *x;         /* what tap position 0 covers of the first result, its first vector or channel */
    int64_t step, plane;    /* floats to the inputs of the next result, to the next vector or channel */
    int64_t vectors, taps;  /* of channels, or channels; of the window */
    const int64_t *at, *of; /* floats of each tap from x, and of its weights from w */
    const float *w;         /* [tap][vector of channels][result channel][vector] or [tap][channel][vector of results] */
    int64_t w_step;         /* floats from a vector or channel to the next */
    const float *bias;      /* a float a result channel */
    float *y;
    int64_t y_step, y_plane; /* elements to the next result, to the next result channel or vector */
    int64_t count;
};

/* y[m][i] = bias[m] + sum over taps and channels of w[m] x. */
typedef void zt_taps_row_run(const struct zt_taps_row *r);

struct zt_taps_kernels {
    int vector;
    zt_taps_row_run *run[ZT_TAPS_RESULTS];     /* by the number of result channels - 1 */
    zt_taps_row_run *sources[ZT_TAPS_VECTORS]; /* by the number of vectors of results - 1 */
};
/* NULL on machines without fused multiply-add. */
const struct zt_taps_kernels *zt_taps_kernels(void);

#endif
