/* Launchers of kernels over lines along an axis and over rows with statistics: what rows.cu, norm.cu,
 * norm_slices.cu, top_k.cu and batch_norm_sync.cu give the *_cuda.c files. As launch.h says; a tensor names its own
 * type, ZT_FLOAT or ZT_BFLOAT16 where nothing else is said, and is not there where `data` is NULL. */
#ifndef ZT_OPS_CUDA_LAUNCH_ROWS_H
#define ZT_OPS_CUDA_LAUNCH_ROWS_H

#include "graph/ir/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

struct zt_launch_tensor {
    enum zt_dtype dtype;
    void *data;
};

/* ---- rows.cu: a tensor [outer, length, inner], a line is `length` elements `inner` apart ---- */

enum zt_launch_rows_rule {
    ZT_ROWS_SOFTMAX,
    ZT_ROWS_LOG_SOFTMAX,
    ZT_ROWS_HARDMAX,
    ZT_ROWS_SOFTMAX_GRAD, /* of dy and y */
    ZT_ROWS_LOG_SOFTMAX_GRAD,
    ZT_ROWS_LP,     /* divided by its norm, of power 1 or 2 */
    ZT_ROWS_LP_GRAD /* of dy and x */
};
struct zt_launch_rows {
    enum zt_launch_rows_rule rule;
    int power;
    int64_t outer, length, inner;
};
int zt_launch_rows(struct CUstream_st *stream, const struct zt_launch_rows *l, struct zt_launch_tensor a,
                   struct zt_launch_tensor b, struct zt_launch_tensor y);

/* y[line], int64, = place of the first (last) largest (smallest) element; NaN is both. x: float types, int32, int64. */
struct zt_launch_extreme {
    int64_t outer, length, inner;
    bool least, last;
};
int zt_launch_extreme(struct CUstream_st *stream, const struct zt_launch_extreme *e, struct zt_launch_tensor x,
                      int64_t *y);

/* Running sums or products along lines. x and y: float types, int32, int64. */
struct zt_launch_cumulate {
    int64_t outer, length, inner;
    bool product, exclusive, reverse;
};
int zt_launch_cumulate(struct CUstream_st *stream, const struct zt_launch_cumulate *c, struct zt_launch_tensor x,
                       struct zt_launch_tensor y);

/* The k largest (smallest) elements of every line and their places, in order (ops/reduce/top_k.c); values and places
 * [outer, k, inner], each may be NULL. x: float types, int32, int64. */
struct zt_launch_top_k {
    int64_t outer, length, inner, k;
    bool least;
};
int zt_launch_top_k(struct CUstream_st *stream, const struct zt_launch_top_k *t, struct zt_launch_tensor x,
                    void *values, int64_t *places);

/* CountCorrect (ops/loss/loss.c): how many targets are their line's largest, and how many count. */
struct zt_launch_count {
    int64_t outer, length, inner, samples; /* of the row weights */
    int64_t ignore;
};
struct zt_launch_counts {
    int32_t *counts;          /* workspace, two numbers a line */
    unsigned *arrived;        /* a counter of the device (device/cuda.h) */
    float *correct, *counted; /* counted may be NULL */
};
int zt_launch_count_correct(struct CUstream_st *stream, const struct zt_launch_count *c, struct zt_launch_tensor x,
                            struct zt_launch_tensor target, struct zt_launch_tensor row_weight,
                            const struct zt_launch_counts *to);

/* ---- norm_slices.cu ---- */

/* LRN of [outer, channels, inner]: a sum holds `before` and `after` channels beside its own. */
struct zt_launch_lrn {
    int64_t outer, channels, inner, before, after;
    float alpha, beta, bias;
};
int zt_launch_lrn(struct CUstream_st *stream, const struct zt_launch_lrn *n, struct zt_launch_tensor x,
                  struct zt_launch_tensor y);
/* slope: workspace, a number an element. */
int zt_launch_lrn_grad(struct CUstream_st *stream, const struct zt_launch_lrn *n, struct zt_launch_tensor dy,
                       struct zt_launch_tensor x, struct zt_launch_tensor dx, float *slope);

/* MeanVarianceNormalization over groups of `over` elements, `kept` of them. With dy: its gradient, else dy is NULL. */
struct zt_launch_mvn {
    int kept_axes, over_axes;
    int64_t kept_dim[ZT_MAX_RANK], kept_step[ZT_MAX_RANK], over_dim[ZT_MAX_RANK], over_step[ZT_MAX_RANK];
    int64_t kept, over; /* products of the dims */
};
int zt_launch_mvn(struct CUstream_st *stream, const struct zt_launch_mvn *n, struct zt_launch_tensor dy,
                  struct zt_launch_tensor x, struct zt_launch_tensor y);

/* ---- norm.cu ---- */

/* As struct zt_norm of norm.h has it. */
struct zt_launch_norm {
    int64_t rows, length, period, per_row, run;
    bool centred;
    float epsilon;
    bool last; /* x and what is like it lie [rows / period][run][period][per_row] */
};
/* y may be NULL: the statistics alone; mean and inv_std too. */
int zt_launch_norm(struct CUstream_st *stream, const struct zt_launch_norm *n, struct zt_launch_tensor x,
                   struct zt_launch_tensor scale, struct zt_launch_tensor bias, struct zt_launch_tensor y,
                   struct zt_launch_tensor mean, struct zt_launch_tensor inv_std);
/* dx, dscale and dbias may be NULL; dmean and dinv_std: the gradients of the statistics themselves. */
struct zt_launch_norm_grad {
    struct zt_launch_tensor dy, x, scale, mean, inv_std, dmean, dinv_std, dx, dscale, dbias;
    int64_t parts;     /* of what is summed, from zt_launch_norm_grad_parts */
    unsigned *arrived; /* counters of the device (device/cuda.h), asked for where parts > 1 */
};
int64_t zt_launch_norm_grad_parts(const struct zt_launch_norm *n);
/* workspace: 2 numbers a part and entry of scale, where parts > 1. */
int zt_launch_norm_grad(struct CUstream_st *stream, const struct zt_launch_norm *n, const struct zt_launch_norm_grad *g,
                        float *workspace);

/* Batch normalisation of x [n, channels, spatial] (struct zt_batch_norm of norm.h); with parts: batch_norm_rows.cu. */
struct zt_launch_batch_norm {
    int64_t n, channels, spatial;
    float epsilon, momentum;
    bool fixed;     /* mean and var are given, not the batch's */
    bool keeps_var; /* the last output is the batch's variance, not 1 / sqrt(var + epsilon) */
    bool relu;      /* y = max(that + z, 0); of the gradient: dy counts where y is not 0 or less */
    int64_t parts;  /* of channels last (spatial 1): how many blocks share a channel; 0: a block takes whole channels */
};
/* For rows [n, channels]. */
int64_t zt_launch_batch_norm_parts(const struct zt_launch_batch_norm *n);
/* Of workspace; 0 without parts. */
static inline size_t zt_launch_batch_norm_bytes(const struct zt_launch_batch_norm *n) {
    return n->parts ? (size_t)(n->channels * (2 * n->parts + 4)) * sizeof(float) : 0;
}
/* arrived: zt_cuda_arrived. */
struct zt_launch_batch_norm_tensors {
    struct zt_launch_tensor x, scale, b, mean, var, z;                 /* z may be NULL */
    struct zt_launch_tensor y, new_mean, new_var, batch_mean, inv_std; /* all but y may be NULL */
    unsigned *arrived;
};
int zt_launch_batch_norm(struct CUstream_st *stream, const struct zt_launch_batch_norm *n,
                         const struct zt_launch_batch_norm_tensors *t, float *workspace);
/* ReLU beside a normalisation that a library computed: y = max(y + z, 0), z may be NULL; and dz = dy where y is not 0
 * or less. */
int zt_launch_batch_norm_relu(struct CUstream_st *stream, int64_t count, struct zt_launch_tensor y,
                              struct zt_launch_tensor z);
int zt_launch_batch_norm_mask(struct CUstream_st *stream, int64_t count, struct zt_launch_tensor dy,
                              struct zt_launch_tensor y, struct zt_launch_tensor dz);
/* Running statistics alone, from the batch's mean and inv_std in float: of `count` normalisations (formula:
 * ops/norm/fuse_batch_norm.c). */
enum { ZT_RUNNING_NORMS = 64 };
struct zt_launch_running_norm {
    int64_t channels;
    const float *mean, *inv_std;
    const void *old_mean, *old_var;
    void *new_mean, *new_var;
};
struct zt_launch_running {
    float epsilon, momentum;
    enum zt_dtype mean_dtype, var_dtype; /* of the running statistics, old and new: ZT_FLOAT or ZT_BFLOAT16 */
    int count;
    struct zt_launch_running_norm norm[ZT_RUNNING_NORMS];
};
int zt_launch_batch_norm_running(struct CUstream_st *stream, const struct zt_launch_running *r);
/* fixed: inv_std holds the variance. dmean and dvar: gradients of the statistics themselves. y: of ReLU; dz: dy where
 * that counts. */
struct zt_launch_batch_norm_grad {
    struct zt_launch_tensor dy, x, scale, mean, inv_std, y, dmean, dvar, dx, dscale, db, dz;
    unsigned *arrived;
};
int zt_launch_batch_norm_grad(struct CUstream_st *stream, const struct zt_launch_batch_norm *n,
                              const struct zt_launch_batch_norm_grad *g, float *workspace);

/* Batch normalisation over all ranks (ops/norm/batch_norm_sync.c), in two launches for channels [first, first + count):
 * two sums a channel and behind them the elements that count, all fp64; and what comes of the sums over the ranks. */
struct zt_launch_norm_sync {
    int64_t n, channels, spatial, per_weight; /* per_weight: rows that share an entry of weights */
    double epsilon, momentum;
    bool alone; /* the sums are this rank's */
};
/* The gradient is asked for where dy is there; weights: 0 for rows that do not count, NULL: all do. What is NULL of the
 * results is not wanted. */
struct zt_launch_norm_sync_tensors {
    struct zt_launch_batch_norm_tensors forward;
    struct zt_launch_batch_norm_grad grad; /* without dmean and dvar */
    struct zt_launch_tensor weights;
};
int zt_launch_norm_sync_sums(struct CUstream_st *stream, const struct zt_launch_norm_sync *n,
                             const struct zt_launch_norm_sync_tensors *t, int64_t first, int64_t count, double *sums);
int zt_launch_norm_sync_apply(struct CUstream_st *stream, const struct zt_launch_norm_sync *n,
                              const struct zt_launch_norm_sync_tensors *t, int64_t first, int64_t count,
                              const double *sums);

#ifdef __cplusplus
}
#endif

#endif
