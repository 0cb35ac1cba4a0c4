/* Vector loops of a convolution of few input channels with ReLU and a 2 x 2 max pool: the results of some windows of
 * the pool, four each, stay in registers over all taps (input channels and kernel places), with output channels side by
 * side in a vector. Chosen by CPUID. */
#ifndef ZT_OPS_FUSION_SIMD_FEW_CHANNELS_H
#define ZT_OPS_FUSION_SIMD_FEW_CHANNELS_H

#include <stdint.h>

struct zt_few_channels_row {
    const float *x;      /* the first input of the first window's first result */
    int64_t column, row; /* floats from a result's inputs to those of the next one, and of the one below */
    const int32_t *tap;  /* floats from the first input of a result to that of each tap */
    int64_t taps;
    const float *w, *bias; /* [group][tap][vector], [group][vector] */
    float *p;              /* max(the largest of the window's results, 0), NaN stays, of the first window */
    uint8_t *position;     /* 0 to 3, which one it is; in the order of p */
    int64_t group, pixel;  /* elements of p from a group to the next, and from a window to the next */
};

/* Vectors of output channels and windows in a row of the pool, as many as the function is for. */
typedef void zt_few_channels_row_run(const struct zt_few_channels_row *r);

/* Windows of the pool in order; their inputs are patches of 4 x 4 floats, aligned. */
struct zt_few_channels_patches {
    const float *patches; /* of the first window and input channel */
    int64_t channel;      /* floats from the patches of an input channel to those of the next */
    int64_t windows;
    const float *dp, *p; /* of a vector of output channels in the first window; dp passes where not p <= 0 */
    const uint8_t *position;
    int64_t pixel; /* elements of these from a window to the next */
};
/* sums[c][t] += sum over the windows of dp * the input of tap t at the window's position, the weight gradient, and
 * db += sum of dp, unless NULL; vectors. For a constant number of input channels. */
typedef void zt_few_channels_weight(const struct zt_few_channels_patches *p, float *sums, float *db);

/* The input channels that are few at any width; vectors and windows that a function takes. */
enum { ZT_FEW_CHANNELS = 15, ZT_FEW_CHANNELS_GROUPS = 2, ZT_FEW_CHANNELS_WINDOWS = 3 };
/* Of a weight gradient: rows and columns of the kernel, places of it, input channels whose sums stay in registers. */
enum { ZT_FEW_CHANNELS_KERNEL = 3, ZT_FEW_CHANNELS_TAPS = 9, ZT_FEW_CHANNELS_TOGETHER = 3 };
struct zt_few_channels_kernels {
    int vector;                          /* floats */
    int windows[ZT_FEW_CHANNELS_GROUPS]; /* the most that a function of so many groups takes */
    zt_few_channels_row_run *run[ZT_FEW_CHANNELS_GROUPS][ZT_FEW_CHANNELS_WINDOWS]; /* [groups - 1][windows - 1] */
    zt_few_channels_weight *weight[ZT_FEW_CHANNELS_TOGETHER]; /* NULL where a vector does not hold a patch */
};
/* NULL on machines without fused multiply-add. */
const struct zt_few_channels_kernels *zt_few_channels_kernels(void);

#endif
