/* Histograms of the trained tensors and of their gradients, over all ranks. */
#ifndef ZT_RUN_HISTOGRAM_H
#define ZT_RUN_HISTOGRAM_H

#include "run/rank/rank.h"

/* The finite values of a tensor by size. Bucket i counts the values v with limit[i - 1] <= v < limit[i]; the limits
 * ascend. Consecutive empty buckets are one bucket. */
struct zt_histogram {
    double min, max, count, sum, squares;
    const double *limit, *bucket;
    int buckets;
};

/* Receives the histogram of tensor `tensor` of a stage: of its values, or of its gradient. */
struct zt_histogram_sink {
    void (*take)(const struct zt_histogram_sink *sink, int stage, int tensor, bool gradient,
                 const struct zt_histogram *histogram);
    void *with;
};

/* Counts the values of all trained tensors and of the gradients of the latest step, before clipping. `loss_scale`: that
 * of the step, by which gradients are divided. Collective; rank 0 has the sink, the others pass NULL. No step may be
 * begun and not ended. */
bool zt_rank_histograms(struct zt_rank *rank, double loss_scale, const struct zt_histogram_sink *sink,
                        struct zt_err *err);

#endif
