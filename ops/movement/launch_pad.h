/* Launchers of pad.cu: Pad, Trilu, OneHot and ReverseSequence. `bytes` is the size of an element: 1, 2, 4 or 8.
 * Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_MOVEMENT_LAUNCH_PAD_H
#define ZT_OPS_MOVEMENT_LAUNCH_PAD_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y = x padded: along each axis, index i of y comes from index i - front of x, or from what the mode makes of it. */
enum zt_launch_padding { ZT_PAD_CONSTANT, ZT_PAD_EDGE, ZT_PAD_REFLECT, ZT_PAD_WRAP };
struct zt_launch_pad {
    enum zt_launch_padding mode;
    int axes;
    int64_t small[ZT_MAX_RANK], big[ZT_MAX_RANK], front[ZT_MAX_RANK]; /* shapes of x and y, padding in front */
    const void *fill_at;                                              /* the constant in device memory; NULL: `fill` */
    uint64_t fill;                                                    /* bits of the constant */
};
int zt_launch_pad(struct CUstream_st *stream, size_t bytes, const struct zt_launch_pad *p, const void *x, void *y);
/* dx = sum of the elements of dy that come from an element of x, in the order of dy. */
int zt_launch_pad_grad(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_pad *p, const void *dy,
                       void *dx);

/* The upper or lower triangle, from diagonal `k` on, of matrices [rows, columns]; zeros elsewhere. */
struct zt_launch_triangle {
    int64_t count, rows, columns, k; /* count: elements of all matrices */
    bool upper;
};
int zt_launch_triangle(struct CUstream_st *stream, size_t bytes, const struct zt_launch_triangle *t, const void *x,
                       void *y);

/* y[o, d, i] = values[1] where index[o, i] is d, else values[0]; y is [outer, depth, inner]. A negative index counts
 * from the end. index: float, int32, int64 or uint8. */
struct zt_launch_one_hot {
    enum zt_dtype index_dtype;
    int64_t outer, depth, inner;
};
int zt_launch_one_hot(struct CUstream_st *stream, size_t bytes, const struct zt_launch_one_hot *h, const void *index,
                      const void *values, void *y);

/* y = x with the first length[b] steps of each sample b reversed. A length outside 0..steps counts as the nearer
 * bound. */
struct zt_launch_reverse {
    int64_t samples, steps, inner;
    bool batch_first; /* [samples, steps, inner], else [steps, samples, inner] */
};
int zt_launch_reverse(struct CUstream_st *stream, size_t bytes, const struct zt_launch_reverse *r, const void *x,
                      const int64_t *length, void *y);

/* y [samples, middle, rows, inner] = cache, but `updates` rows of sample b from places[b] on are those of the update,
 * [samples, middle, updates, inner]. places NULL: 0. Rows outside the cache are not written, or in a circular cache
 * counted from its start. */
struct zt_launch_tensor_scatter {
    int64_t samples, middle, rows, updates, inner;
    bool circular;
};
struct zt_launch_tensor_scatter_data {
    const void *cache, *update;
    const int64_t *places;
    void *y;
};
int zt_launch_tensor_scatter(struct CUstream_st *stream, size_t bytes, const struct zt_launch_tensor_scatter *s,
                             const struct zt_launch_tensor_scatter_data *d);

#ifdef __cplusplus
}
#endif

#endif
