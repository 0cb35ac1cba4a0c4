/* Vector loops of convolutions over lines: a line is a plane whose rows, with their margins, follow one another. A tap
 * is then a distance along the line, and a vector holds adjacent results of one channel. Chosen by CPUID. */
#ifndef ZT_OPS_CONV_SIMD_LINES_H
#define ZT_OPS_CONV_SIMD_LINES_H

#include <stdbool.h>
#include <stdint.h>

enum { ZT_LINES_RESULTS = 6, ZT_LINES_DOTS = 4 }; /* channels that a run takes at most: of results, of dots */

/* A source is a tap of an input channel. Results of some channels, `count` vectors of each. */
struct zt_lines_results {
    const float *x;    /* what result 0 reads at distance 0 */
    const int64_t *at; /* floats from x to each source */
    int64_t sources, count;
    const float *w; /* [source][channel] */
    const float *bias;
    float *y;
    int64_t y_line; /* floats to the next channel */
    int channels;
    bool relu; /* y = max(y, 0), NaN stays */
};
/* y[m][i] = bias[m] + sum over sources s of w[s][m] x[at[s] + i] */
typedef void zt_lines_results_run(const struct zt_lines_results *r);

/* The products of some channels of dy and `sources` sources, each with each, summed over `segments` parts of the lines
 * of `count` vectors each. */
struct zt_lines_dots {
    const float *x, *dy;
    const int64_t *at; /* floats from x to each source; of as many as a run takes at most */
    int64_t segments, segment, count;
    int64_t dy_line; /* floats to the next channel */
    float *dw;
    int64_t dw_row; /* floats to the next channel */
    int channels, sources;
};
/* dw[m][s] += sum over i of dy[m][i] x[at[s] + i] */
typedef void zt_lines_dots_run(const struct zt_lines_dots *d);

struct zt_lines_kernels {
    int vector, sources; /* floats; sources that a run of dots takes at most */
    zt_lines_results_run *results;
    zt_lines_dots_run *dots;
};
/* NULL on machines without fused multiply-add. */
const struct zt_lines_kernels *zt_lines_kernels(void);

#endif
