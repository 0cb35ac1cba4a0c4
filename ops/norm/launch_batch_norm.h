/* Launchers of batch normalisation: norm.cu, batch_norm_rows.cu and, over all ranks, batch_norm_sync.cu. Conventions:
 * ops/cuda/launch.h. */
#ifndef ZT_OPS_NORM_LAUNCH_BATCH_NORM_H
#define ZT_OPS_NORM_LAUNCH_BATCH_NORM_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Batch normalisation of x [n, channels, spatial]. */
struct zt_launch_batch_norm {
    int64_t n, channels, spatial;
    float epsilon, momentum;
    bool fixed;     /* mean and var are inputs, not those of the batch */
    bool keeps_var; /* the last output is the batch's variance, not 1 / sqrt(var + epsilon) */
    bool relu;      /* y = max(normalised + z, 0); in the gradient dy counts where y is above 0 or NaN */
    int64_t parts;  /* blocks that share a channel of rows [n, channels] (spatial 1); 0: a block takes whole channels */
};
/* parts for rows [n, channels]. */
int64_t zt_launch_batch_norm_parts(const struct zt_launch_batch_norm *n);
/* Bytes of workspace; 0 without parts. */
static inline size_t zt_launch_batch_norm_bytes(const struct zt_launch_batch_norm *n) {
    return n->parts ? (size_t)(n->channels * (2 * n->parts + 4)) * sizeof(float) : 0;
}
struct zt_launch_batch_norm_tensors {
    struct zt_launch_tensor x, scale, b, mean, var, z;                 /* z may be absent */
    struct zt_launch_tensor y, new_mean, new_var, batch_mean, inv_std; /* all but y may be absent */
    unsigned *arrived;                                                 /* zeroed counters: zt_cuda_arrived */
};
int zt_launch_batch_norm(struct CUstream_st *stream, const struct zt_launch_batch_norm *n,
                         const struct zt_launch_batch_norm_tensors *t, float *workspace);

/* ReLU behind a normalisation that a library computed: y = max(y + z, 0); z may be absent. */
int zt_launch_batch_norm_relu(struct CUstream_st *stream, int64_t count, struct zt_launch_tensor y,
                              struct zt_launch_tensor z);
/* Its gradient: dz = dy where y is above 0 or NaN, else 0. */
int zt_launch_batch_norm_mask(struct CUstream_st *stream, int64_t count, struct zt_launch_tensor dy,
                              struct zt_launch_tensor y, struct zt_launch_tensor dz);

/* Running statistics of `count` normalisations, from mean and inv_std of the batch in fp32 (formula:
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
    enum zt_dtype mean_dtype, var_dtype; /* of the running statistics, old and new */
    int count;
    struct zt_launch_running_norm norm[ZT_RUNNING_NORMS];
};
int zt_launch_batch_norm_running(struct CUstream_st *stream, const struct zt_launch_running *r);

/* With n->fixed, inv_std holds the variance. dmean and dvar: gradients of the saved statistics. y: result of the ReLU.
 * dz: dy where the ReLU lets it pass. */
struct zt_launch_batch_norm_grad {
    struct zt_launch_tensor dy, x, scale, mean, inv_std, y, dmean, dvar, dx, dscale, db, dz;
    unsigned *arrived;
};
int zt_launch_batch_norm_grad(struct CUstream_st *stream, const struct zt_launch_batch_norm *n,
                              const struct zt_launch_batch_norm_grad *g, float *workspace);

/* Batch normalisation over all ranks (ops/norm/batch_norm_sync.c), in two launches for channels [first, first + count).
 * The ranks add up `sums` between the launches: two sums a channel, then the number of elements that count, in fp64. */
struct zt_launch_norm_sync {
    int64_t n, channels, spatial, per_weight; /* per_weight: rows that share an entry of weights */
    double epsilon, momentum;
    bool alone; /* the sums are those of this rank */
};
/* grad.dy present: the gradient, else the forward pass. weights: 0 for rows that do not count; absent: all rows count.
 * Absent results are not computed. */
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
