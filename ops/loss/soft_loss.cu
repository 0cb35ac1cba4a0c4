/* Cross-entropy over class probabilities, and its gradient (formulas: ops/loss/soft_loss.c). A block takes a row of
 * many classes, else a thread does. One block adds up the rows in a fixed order, in fp64. */
#include "base/block.cuh"
#include "ops/loss/launch_soft_loss.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

enum { ROW = 256, FINISH = 1024 }; /* threads */
enum { SHORT = 64 };               /* classes of a row up to which a thread takes it */

/* A row, of which N threads each take every N-th class from `thread` on. */
template <int N> struct taken {
    int64_t start;
    int thread;
};

template <int N> static __device__ struct taken<N> take_row(const struct zt_launch_loss &j, int64_t l) {
    return { l / j.inner * j.classes * j.inner + l % j.inner, N == 1 ? 0 : (int)threadIdx.x };
}

/* Combines the values of a row's threads; all get the result. */
template <int N, class Join>
static __device__ float fold_row(float mine, float *part, Join join) {
    if (N == 1)
        return mine;
    return fold_block<N>(mine, part, join);
}

template <int N> static __device__ float add_row(float mine, float *part) {
    return fold_row<N>(mine, part, [](float a, float b) { return a + b; });
}

static __device__ float row_weight(const struct zt_launch_loss &j, int64_t l) {
    const int64_t each = j.samples > 0 ? j.outer * j.inner / j.samples : 0;
    return j.row_weight ? float_at(j.row_dtype, j.row_weight, l / (each > 0 ? each : 1)) : 1;
}

/* q of class c, whose element is `at`. */
static __device__ float target_at(const struct zt_launch_loss &j, int64_t c, int64_t at) {
    const float t = float_at(j.target_dtype, j.target, at);
    const float weight = j.class_weight ? float_at(j.class_dtype, j.class_weight, c) : 1;
    return weight * ((1 - j.smoothing) * t + j.smoothing / (float)j.classes);
}

template <int N, class T>
static __device__ float log_sum_of(const struct zt_launch_loss &j, struct taken<N> row, float *part) {
    const T *x = (const T *)j.x + row.start;
    float most = -CUDART_INF_F, sum = 0;
    for (int64_t c = row.thread; c < j.classes; c += N)
        most = fmaxf(most, to_float(x[c * j.inner]));
    most = fold_row<N>(most, part, [](float a, float b) { return fmaxf(a, b); });
    const float shift = most == -CUDART_INF_F ? 0 : most; /* -inf then counts 0, and NaN stays */
    for (int64_t c = row.thread; c < j.classes; c += N)
        sum += expf(to_float(x[c * j.inner]) - shift);
    return most + logf(add_row<N>(sum, part));
}

struct soft_out {
    float *lse;
    double *sums; /* [2 l]: weighted loss of row l, [2 l + 1]: its weight */
};

template <int N, class T>
static __device__ void row_loss(const struct zt_launch_loss &j, const struct soft_out &to, int64_t l, float *part) {
    const struct taken<N> row = take_row<N>(j, l);
    const T *x = (const T *)j.x;
    const float log_sum = log_sum_of<N, T>(j, row, part), weight = row_weight(j, l);
    float loss = 0;
    for (int64_t c = row.thread; c < j.classes; c += N) {
        const int64_t at = row.start + c * j.inner;
        loss += target_at(j, c, at) * (log_sum - to_float(x[at]));
    }
    loss = add_row<N>(loss, part);
    if (row.thread != 0)
        return;
    to.sums[2 * l] = weight != 0 ? (double)weight * loss : 0; /* a padding row may hold anything */
    to.sums[2 * l + 1] = weight;
    if (to.lse)
        to.lse[l] = log_sum;
}

template <class T> static __global__ void long_rows_kernel(struct zt_launch_loss j, struct soft_out to) {
    __shared__ float part[ROW];
    for (int64_t l = blockIdx.x; l < j.outer * j.inner; l += gridDim.x)
        row_loss<ROW, T>(j, to, l, part);
}

template <class T> static __global__ void short_rows_kernel(struct zt_launch_loss j, struct soft_out to) {
    EACH(l, j.outer * j.inner) {
        row_loss<1, T>(j, to, l, nullptr);
    }
}

static __global__ void finish_kernel(struct zt_launch_loss j, void *loss, const double *sums) {
    __shared__ double part[FINISH];
    double value = 0, weight = 0;
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH) {
        value += sums[2 * l];
        weight += sums[2 * l + 1];
    }
    value = add_block<FINISH>(value, part);
    weight = add_block<FINISH>(weight, part);
    if (threadIdx.x == 0)
        set_float(j.loss_dtype, loss, 0, weight != 0 ? (float)(value / weight) : 0);
}

/* ---- its gradient ---- */

struct soft_grad {
    const void *dloss;
    const float *lse;
    double *total; /* sum of the rows' weights */
    void *dx;
};

static __global__ void total_kernel(struct zt_launch_loss j, double *total) {
    __shared__ double part[FINISH];
    double weight = 0;
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH)
        weight += row_weight(j, l);
    weight = add_block<FINISH>(weight, part);
    if (threadIdx.x == 0)
        *total = weight;
}

template <int N, class T>
static __device__ void row_grad(const struct zt_launch_loss &j, const struct soft_grad &g, int64_t l, float *part) {
    const struct taken<N> row = take_row<N>(j, l);
    const float weight = row_weight(j, l), d = float_at(j.loss_dtype, g.dloss, 0);
    const float factor = weight != 0 && *g.total != 0 ? (float)(d * weight / *g.total) : 0;
    float sum = 0;
    for (int64_t c = row.thread; c < j.classes; c += N)
        sum += target_at(j, c, row.start + c * j.inner);
    sum = add_row<N>(sum, part);
    for (int64_t c = row.thread; c < j.classes; c += N) {
        const int64_t at = row.start + c * j.inner;
        const float p = factor != 0 ? expf(to_float(((const T *)j.x)[at]) - g.lse[l]) : 0;
        ((T *)g.dx)[at] = from_float<T>(factor != 0 ? factor * (p * sum - target_at(j, c, at)) : 0);
    }
}

template <class T> static __global__ void long_grads_kernel(struct zt_launch_loss j, struct soft_grad g) {
    __shared__ float part[ROW];
    for (int64_t l = blockIdx.x; l < j.outer * j.inner; l += gridDim.x)
        row_grad<ROW, T>(j, g, l, part);
}

template <class T> static __global__ void short_grads_kernel(struct zt_launch_loss j, struct soft_grad g) {
    EACH(l, j.outer * j.inner) {
        row_grad<1, T>(j, g, l, nullptr);
    }
}

/* ---- launching ---- */

static bool are_long(const struct zt_launch_loss *j) {
    return j->inner == 1 && j->classes > SHORT;
}

template <class T> static void launch_rows(cudaStream_t stream, const struct zt_launch_loss *j, struct soft_out to) {
    const int64_t rows = j->outer * j->inner;
    if (rows > 0 && are_long(j))
        long_rows_kernel<T><<<job_blocks(rows), ROW, 0, stream>>>(*j, to);
    else if (rows > 0)
        short_rows_kernel<T><<<blocks_for(rows), BLOCK, 0, stream>>>(*j, to);
}

template <class T> static void launch_grads(cudaStream_t stream, const struct zt_launch_loss *j, struct soft_grad g) {
    const int64_t rows = j->outer * j->inner;
    total_kernel<<<1, FINISH, 0, stream>>>(*j, g.total);
    if (are_long(j))
        long_grads_kernel<T><<<job_blocks(rows), ROW, 0, stream>>>(*j, g);
    else
        short_grads_kernel<T><<<blocks_for(rows), BLOCK, 0, stream>>>(*j, g);
}

int zt_launch_soft_loss(cudaStream_t stream, const struct zt_launch_loss *j, void *loss, float *lse, void *workspace) {
    const struct soft_out to = { lse, (double *)workspace };
    WITH_TYPE(j->dtype, 1,
              (launch_rows<T>(stream, j, to), /* of no row, too */
               finish_kernel<<<1, FINISH, 0, stream>>>(*j, loss, to.sums)));
}

int zt_launch_soft_loss_grad(cudaStream_t stream, const struct zt_launch_loss *j, const void *dloss, const float *lse,
                             void *dx, void *workspace) {
    const struct soft_grad g = { dloss, lse, (double *)workspace, dx };
    WITH_TYPE(j->dtype, j->outer * j->inner, (launch_grads<T>(stream, j, g)));
}
