/* Launchers of kernels that move elements: what copy.cu gives the *_cuda.c files. As launch.h says. */
#ifndef ZT_OPS_CUDA_LAUNCH_COPY_H
#define ZT_OPS_CUDA_LAUNCH_COPY_H

#include "ops/movement/combine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* A strided copy of elements of 1, 2, 4 or 8 bytes. */
struct zt_launch_strided_copy {
    int axes; /* 0: one element */
    int64_t dim[ZT_MAX_RANK], from_step[ZT_MAX_RANK], to_step[ZT_MAX_RANK];
};
int zt_launch_strided_copy(struct CUstream_st *stream, size_t bytes, const struct zt_launch_strided_copy *m,
                           const void *from, void *to);
/* The same from one type to another, float or half each, or added to what is there, in fp32. */
int zt_launch_strided_copy_sum(struct CUstream_st *stream, enum zt_dtype from_dtype, enum zt_dtype to_dtype,
                               const struct zt_launch_strided_copy *m, const void *from, void *to, bool accumulate);

/* y = x padded: per axis the source of index i of y is rule(i - front), or none. */
enum zt_launch_padding { ZT_PAD_CONSTANT, ZT_PAD_EDGE, ZT_PAD_REFLECT, ZT_PAD_WRAP };
struct zt_launch_pad {
    enum zt_launch_padding mode;
    int axes;
    int64_t small[ZT_MAX_RANK], big[ZT_MAX_RANK], front[ZT_MAX_RANK];
    uint64_t fill; /* bits of the constant, where no element of the device holds it */
    const void *fill_at;
};
int zt_launch_pad(struct CUstream_st *stream, size_t bytes, const struct zt_launch_pad *p, const void *x, void *y);
/* dx = sum of dy over all that took an element, in the order of dy; ZT_FLOAT or ZT_BFLOAT16. */
int zt_launch_pad_grad(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_pad *p, const void *dy,
                       void *dx);

/* The upper or lower triangle, from diagonal `k` on, of matrices [rows, columns]; zeros elsewhere. */
struct zt_launch_triangle {
    int64_t count, rows, columns, k;
    bool upper;
};
int zt_launch_triangle(struct CUstream_st *stream, size_t bytes, const struct zt_launch_triangle *t, const void *x,
                       void *y);

/* y[o, d, i] = values[1] where index[o, i] is d (negative ones count from the end), else values[0], over [outer, depth,
 * inner]. index: float, int32, int64 or uint8. */
struct zt_launch_one_hot {
    enum zt_dtype index_dtype;
    int64_t outer, depth, inner;
};
int zt_launch_one_hot(struct CUstream_st *stream, size_t bytes, const struct zt_launch_one_hot *h, const void *index,
                      const void *values, void *y);

/* The first length[b] steps of each sample b turned round; [steps, samples, inner], or [samples, steps, inner]. A
 * length beyond 0..steps is taken as the nearer end: a kernel cannot report it. */
struct zt_launch_reverse {
    int64_t samples, steps, inner;
    bool batch_first;
};
int zt_launch_reverse(struct CUstream_st *stream, size_t bytes, const struct zt_launch_reverse *r, const void *x,
                      const int64_t *length, void *y);

/* ---- gather and scatter ---- */

/* What is put: y[at] = y[at] op x[from] (combine.h), in the order of the sources. Those that may meet are sorted first,
 * in a workspace, whose bytes zt_launch_*_bytes give: SIZE_MAX where they are more than can be sorted (2^32, or where
 * their numbers and those of their places have more than 64 bits together). */
struct zt_launch_room {
    void *workspace;
    unsigned *arrived; /* counters of the device (device/cuda.h) */
};

/* y[o, j, i] = x[o, index[j], i] over [outer, count, inner]; x is [outer, size, inner]. An index outside (negative ones
 * count from the end) gives zero bits: a kernel cannot report it. */
struct zt_launch_gather {
    enum zt_dtype index_dtype; /* ZT_INT32, ZT_INT64 */
    int64_t outer, size, count, inner;
};
int zt_launch_gather(struct CUstream_st *stream, size_t bytes, const struct zt_launch_gather *g, const void *x,
                     const void *index, void *y);

/* Its gradient: dx, which is zeros, gets dy added up at the same places, in the order of j. */
int zt_launch_gather_grad(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_gather *g,
                          const void *dy, const void *index, void *dx, struct zt_launch_room room);
size_t zt_launch_gather_grad_bytes(const struct zt_launch_gather *g);

/* GatherElements, its gradient and ScatterElements. */
struct zt_launch_elements {
    enum zt_dtype index_dtype;
    enum zt_combine how;
    int axes, axis;
    int64_t dim[ZT_MAX_RANK], data[ZT_MAX_RANK]; /* shapes of the index and of the data */
};
int zt_launch_gather_elements(struct CUstream_st *stream, size_t bytes, const struct zt_launch_elements *e,
                              const void *x, const void *index, void *y);
/* y, which holds what it starts with, combined with what `index` sends there from x, in its order. dtype: float,
 * half, int32, int64, or with ZT_COMBINE_REPLACE any. */
int zt_launch_put_elements(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_elements *e,
                           const void *x, const void *index, void *y, struct zt_launch_room room);
size_t zt_launch_put_elements_bytes(const struct zt_launch_elements *e);

/* GatherND, its gradient and ScatterND: tuple t of `length` numbers names the slice of `slice` elements of data in its
 * batch. */
struct zt_launch_tuples {
    enum zt_dtype index_dtype;
    enum zt_combine how;
    int64_t tuples, length, slice, per_batch; /* per_batch: tuples that share a batch */
    int64_t batch_step;                       /* slices of data a batch */
    int64_t size[ZT_MAX_RANK];                /* of the axes a tuple indexes */
};
int zt_launch_gather_tuples(struct CUstream_st *stream, size_t bytes, const struct zt_launch_tuples *t, const void *x,
                            const void *index, void *y);
/* y, which holds what it starts with, combined with slice t of x at the place of tuple t, in the order of t. */
int zt_launch_put_tuples(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_tuples *t,
                         const void *x, const void *index, void *y, struct zt_launch_room room);
size_t zt_launch_put_tuples_bytes(const struct zt_launch_tuples *t);

#ifdef __cplusplus
}
#endif

#endif
