/* Sums over the places at which the gradient of a convolution's result is not 0: max pool and ReLU leave one place, or
 * none, of each window. Planes have pixels of `pixel` floats side by side, so that the inputs of a kernel row, which
 * are adjacent pixels, are one run of floats; it is read in whole vectors. */
#ifndef ZT_OPS_FUSION_SIMD_SPARSE_CONV_H
#define ZT_OPS_FUSION_SIMD_SPARSE_CONV_H

#include <stdint.h>

/* Places of one channel, in order: floats from the start of the planes to the first input of the convolution's window,
 * and the gradient there. */
struct zt_sparse_places {
    const int32_t *at;
    const float *value;
    int64_t count;
    int64_t row; /* floats from a kernel row's inputs to the next one's */
};
/* Places of some channels, those of one pixel of the convolution's result together: entries up to end[i] lie at[i]. */
struct zt_sparse_pixels {
    const int32_t *at, *end;
    int64_t count;
    const int32_t *weight; /* of an entry: floats from the first channel's weights to its own */
    const float *value;
    int64_t row;
};

/* Windows of the pool in order: `first[i]` is the `at` of window i's first position; position k of it is k / columns *
 * row + k % columns * column further. The results of a window lie `pixel` elements after those of the one before. */
struct zt_sparse_windows {
    const int32_t *first;
    int64_t count, pixel;
    int32_t positions, columns, row, column;
};
/* The pool's results for a vector of channels. */
struct zt_sparse_pooled {
    const float *dp, *p; /* dp passes where not p <= 0 */
    const uint8_t *position;
};
/* The lists of a vector of channels, `most` elements each: at least a vector more than there are windows. */
struct zt_sparse_lists {
    int32_t *at;
    float *value;
    int64_t most, *count; /* count: of each channel */
    float *sum;           /* of each channel's values */
};
/* Appends the windows that pass to the list of each channel, and adds to its sum. */
typedef void zt_sparse_find(const struct zt_sparse_windows *w, const struct zt_sparse_pooled *from,
                            struct zt_sparse_lists *to);

/* `count` channels; a vector of them lies offset[i] elements from the first, and the weights of one `weight` floats
 * from those of the one before. */
struct zt_sparse_channels {
    const int64_t *offset;
    int64_t count;
    int32_t weight;
};
/* Input of zt_sparse_pixels; one vector is written beyond the entries. */
struct zt_sparse_sorted {
    int32_t *at, *end, *weight;
    float *value;
    int64_t count, entries;
};
/* Appends the pixels of the windows that channels pass to, with their entries. */
typedef void zt_sparse_sort(const struct zt_sparse_windows *w, const struct zt_sparse_pooled *from,
                            const struct zt_sparse_channels *c, struct zt_sparse_sorted *to);

/* The most kernel rows and vectors of a kernel row that a function takes. */
enum { ZT_SPARSE_ROWS = 3, ZT_SPARSE_VECTORS = 7 };

/* sums[r][v] += sum over the places of value * x[at + r * row + v * vector ...], in order: the weight gradient. */
typedef void zt_sparse_weight(const struct zt_sparse_places *p, const float *x, float *sums);
/* dx[at + r * row + v * vector ...] += sum over the pixel's entries of value * w[weight + (r, v)], pixel by pixel: the
 * data gradient. */
typedef void zt_sparse_data(const struct zt_sparse_pixels *p, const float *w, float *dx);

struct zt_sparse_kernels {
    int vector;    /* floats */
    int registers; /* rows times vectors that stay in registers */
    zt_sparse_find *find;
    zt_sparse_sort *sort;
    zt_sparse_weight *weight[ZT_SPARSE_ROWS][ZT_SPARSE_VECTORS]; /* [rows - 1][vectors - 1] */
    zt_sparse_data *data[ZT_SPARSE_ROWS][ZT_SPARSE_VECTORS];
};
/* NULL on machines without fused multiply-add. */
const struct zt_sparse_kernels *zt_sparse_kernels(void);

#endif
