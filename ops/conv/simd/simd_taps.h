/* Vector loops of convolutions tap by tap. Of few result channels: a vector holds channels of the input, and the
 * products of some adjacent results are summed in a vector each, whose elements are added at the end. Of more: a vector
 * holds channels of the result. Chosen by CPUID. */
#ifndef ZT_OPS_CONV_SIMD_TAPS_H
#define ZT_OPS_CONV_SIMD_TAPS_H

#include <stdbool.h>
#include <stdint.h>

enum { ZT_TAPS_RESULTS = 4, ZT_TAPS_VECTORS = 2 }; /* channels, vectors that a function makes at most */

/* Adjacent results of a row whose windows are inside the plane. */
struct zt_taps_row {
    const float *x;          /* what tap position 0 covers of the first result, its first channel */
    int64_t step;            /* floats to the inputs of the next result */
    int64_t vectors;         /* of channels; few sources: channels; dense: unused */
    int64_t plane;           /* floats to the next of them; dense: to the next group of channels */
    int64_t channels, group; /* all, of a group; dense only */
    int64_t taps;
    const int64_t *at, *of; /* floats of each tap from x, and of its weights from w */
    const float *w;         /* [tap][vector of channels][result channel][vector] or [tap][channel][vector of results] */
    int64_t w_step;         /* floats from a vector or channel to the next */
    const float *bias;      /* a float a result channel */
    float *y;
    int64_t y_step, y_plane; /* elements to the next result, to the next result channel or vector */
    int64_t count;
    int result_vectors; /* dense only, as the members below */
    const float *added; /* in the order of y; NULL: none */
    bool relu;          /* y = max(y, 0), NaN stays */
};

/* y[m][i] = bias[m] + sum over taps and channels of w[m] x, + added. */
typedef void zt_taps_row_run(const struct zt_taps_row *r);

struct zt_taps_kernels {
    int vector;
    zt_taps_row_run *results[ZT_TAPS_RESULTS]; /* few: by their number - 1 */
    zt_taps_row_run *sources[ZT_TAPS_VECTORS]; /* of few: by the number of vectors of results - 1 */
    zt_taps_row_run *dense;
};
/* NULL on machines without fused multiply-add. */
const struct zt_taps_kernels *zt_taps_kernels(void);

#endif
