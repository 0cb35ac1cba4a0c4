/* Launchers of our own CUDA kernels: what the *.cu files give the *_cuda.c files. Plain arguments, no graph; C and C++
 * read this.
 *
 * Every launcher queues on `stream` and returns the cudaError_t of doing so. Pointers are into device memory; `dtype`
 * is ZT_FLOAT or ZT_BFLOAT16 where nothing else is said. Sums are taken in an order that depends on the sizes alone:
 * the same bits every time. */
#ifndef ZT_OPS_LAUNCH_CUDA_H
#define ZT_OPS_LAUNCH_CUDA_H

#include "graph/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* ---- elementwise.cu ---- */

/* y = max(x, 0); NaN stays. */
int zt_launch_relu(struct CUstream_st *stream, enum zt_dtype dtype, const void *x, void *y, int64_t count);
/* dx = dy where y is above 0, else 0; NaN in y lets dy through, as the reference does. */
int zt_launch_relu_grad(struct CUstream_st *stream, enum zt_dtype dtype, const void *dy, const void *y, void *dx,
                        int64_t count);

/* Where elements of two inputs lie for each element of the output, row-major over `dim`: a step of 0 repeats. */
struct zt_launch_walk {
    int rank; /* 1 at least */
    int64_t dim[ZT_MAX_RANK], a[ZT_MAX_RANK], b[ZT_MAX_RANK];
};
/* y = a + b */
int zt_launch_add(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, const void *a,
                  const void *b, void *y);
/* y = factor * b; b is spread by walk->b. */
int zt_launch_spread(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, float factor,
                     const void *b, void *y);

/* y = x in another type, any that is computed with; rounds and saturates as graph/dtype.c does. */
int zt_launch_cast(struct CUstream_st *stream, enum zt_dtype from, const void *x, enum zt_dtype to, void *y,
                   int64_t count);

/* ---- reduce.cu ---- */

/* y[outer, inner] = (accumulate ? y : 0) + sum over k of x[outer, k, inner], in fp32. */
struct zt_launch_sum {
    int64_t outer, length, inner;
};
int zt_launch_sum(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_sum *shape, const void *x,
                  void *y, bool accumulate);

/* ---- loss.cu ---- */

/* Cross entropy as ops/loss_class.c defines it, over x[outer, classes, inner]; line l is (l / inner, l % inner). A
 * target that is no class makes loss and gradient NaN: a kernel cannot report its row. */
struct zt_launch_loss {
    enum zt_dtype dtype, dloss_dtype;       /* of x, loss and dx; of dloss */
    enum zt_dtype target_dtype;             /* ZT_INT32, ZT_INT64 */
    enum zt_dtype row_dtype, class_dtype;   /* of the weights */
    int64_t outer, classes, inner, samples; /* lines of row weight n begin at n * lines / samples */
    int64_t ignore;
    float smoothing;
    bool mean, none;                                    /* reduction; neither: sum */
    const void *x, *target, *row_weight, *class_weight; /* weights NULL: 1 */
};
/* Bytes of workspace of both launchers. */
static inline size_t zt_launch_loss_bytes(const struct zt_launch_loss *l) {
    return (size_t)(2 * l->outer * l->inner + 2) * sizeof(double);
}
/* lse (fp32, a value a line) may be NULL. */
int zt_launch_cross_entropy(struct CUstream_st *stream, const struct zt_launch_loss *l, void *loss, float *lse,
                            void *workspace);
int zt_launch_cross_entropy_grad(struct CUstream_st *stream, const struct zt_launch_loss *l, const void *dloss,
                                 const float *lse, void *dx, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
