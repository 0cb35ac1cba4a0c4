/* Cross entropy and its gradient (formulas: ops/loss_class.c). A block takes a line of classes; what lines give is
 * added by one block in a fixed order, in fp64. */
#include "base/block.cuh"
#include "ops/launch_cuda.h"
#include "ops/types.cuh"

#include <math_constants.h>

enum { LINE = 128, FINISH = 512 }; /* threads */

struct line {
    int64_t start, target;
    float weight; /* of the target; 0 where the target does not count */
    bool wrong;   /* the target is no class */
};

static __device__ struct line line_of(const struct zt_launch_loss &j, int64_t l) {
    int64_t lines = j.outer * j.inner, each = j.samples > 0 ? lines / j.samples : 0;
    struct line line;
    line.start = l / j.inner * j.classes * j.inner + l % j.inner;
    line.target = int_at(j.target_dtype, j.target, l);
    line.weight = j.row_weight ? float_at(j.row_dtype, j.row_weight, l / (each > 0 ? each : 1)) : 1;
    if (line.target == j.ignore)
        line.weight = 0;
    line.wrong = line.weight != 0 && (line.target < 0 || line.target >= j.classes);
    return line;
}

static __device__ float class_weight(const struct zt_launch_loss &j, int64_t c) {
    return j.class_weight ? float_at(j.class_dtype, j.class_weight, c) : 1;
}

/* sums[2 l] = weighted loss of line l, sums[2 l + 1] = its weight in the mean. */
static __global__ void cross_entropy_kernel(struct zt_launch_loss j, void *loss, float *lse, void *log_p,
                                            double *sums) {
    __shared__ float part[LINE];
    for (int64_t l = blockIdx.x; l < j.outer * j.inner; l += gridDim.x) {
        struct line line = line_of(j, l);
        float most = -CUDART_INF_F, sum = 0, spread = 0;
        for (int64_t c = threadIdx.x; !j.logs && c < j.classes; c += LINE)
            most = fmaxf(most, float_at(j.dtype, j.x, line.start + c * j.inner));
        most = fold_block<LINE>(most, part, [](float a, float b) { return fmaxf(a, b); });
        for (int64_t c = threadIdx.x; !j.logs && c < j.classes; c += LINE)
            sum += expf(float_at(j.dtype, j.x, line.start + c * j.inner) - most);
        sum = add_block<LINE>(sum, part);
        float log_sum = j.logs ? 0 : most + logf(sum);
        for (int64_t c = threadIdx.x; log_p && c < j.classes; c += LINE) {
            int64_t at = line.start + c * j.inner;
            set_float(j.dtype, log_p, at, float_at(j.dtype, j.x, at) - log_sum);
        }
        for (int64_t c = threadIdx.x; j.smoothing != 0 && c < j.classes; c += LINE)
            spread += class_weight(j, c) * (log_sum - float_at(j.dtype, j.x, line.start + c * j.inner));
        spread = add_block<LINE>(spread, part);
        if (threadIdx.x != 0)
            continue;
        float weight = line.weight == 0 || line.wrong ? line.weight : line.weight * class_weight(j, line.target);
        float value = 0;
        if (line.wrong)
            value = CUDART_NAN_F;
        else if (line.weight != 0)
            value =
                (1 - j.smoothing) * weight * (log_sum - float_at(j.dtype, j.x, line.start + line.target * j.inner)) +
                j.smoothing / (float)j.classes * line.weight * spread;
        sums[2 * l] = value;
        sums[2 * l + 1] = weight;
        if (lse)
            lse[l] = log_sum;
        if (j.none)
            set_float(j.dtype, loss, l, value);
    }
}

/* sums[2 lines] and sums[2 lines + 1]: both kinds added up; the loss where it is one number. The mean of nothing
 * is 0 in rows of ours, else 0 / 0. */
static __global__ void finish_kernel(struct zt_launch_loss j, void *loss, double *sums) {
    __shared__ double part[FINISH];
    int64_t lines = j.outer * j.inner;
    double value = 0, weight = 0;
    for (int64_t l = threadIdx.x; l < lines; l += FINISH) {
        value += sums[2 * l];
        weight += sums[2 * l + 1];
    }
    value = add_block<FINISH>(value, part);
    weight = add_block<FINISH>(weight, part);
    if (threadIdx.x != 0)
        return;
    sums[2 * lines] = value;
    sums[2 * lines + 1] = weight;
    if (loss)
        set_float(j.dtype, loss, 0, (float)(!j.mean ? value : weight != 0 || !j.own ? value / weight : 0));
}

static __global__ void line_weight_kernel(struct zt_launch_loss j, double *sums) {
    EACH(l, j.outer * j.inner) {
        struct line line = line_of(j, l);
        sums[2 * l] = 0;
        sums[2 * l + 1] = line.weight == 0 || line.wrong ? line.weight : line.weight * class_weight(j, line.target);
    }
}

static __global__ void cross_entropy_grad_kernel(struct zt_launch_loss j, const void *dloss, const float *lse, void *dx,
                                                 const double *sums) {
    __shared__ float part[LINE];
    int64_t lines = j.outer * j.inner;
    double total = j.mean ? sums[2 * lines + 1] : 1;
    float classes_weight = 0;
    for (int64_t c = threadIdx.x; j.smoothing != 0 && c < j.classes; c += LINE)
        classes_weight += class_weight(j, c);
    classes_weight = add_block<LINE>(classes_weight, part);
    for (int64_t l = blockIdx.x; l < lines; l += gridDim.x) {
        struct line line = line_of(j, l);
        float d = float_at(j.dloss_dtype, dloss, j.none ? l : 0);
        float factor = line.wrong                       ? CUDART_NAN_F
                       : line.weight != 0 && total != 0 ? (float)(d * line.weight / total)
                                                        : 0;
        float hit = factor == 0 || line.wrong ? factor : factor * (1 - j.smoothing) * class_weight(j, line.target);
        float spread = factor * j.smoothing / (float)j.classes, both = hit + spread * classes_weight;
        for (int64_t c = threadIdx.x; c < j.classes; c += LINE) {
            int64_t at = line.start + c * j.inner;
            float value = factor == 0 || j.logs ? 0 : both * expf(float_at(j.dtype, j.x, at) - lse[l]);
            value -= spread != 0 ? spread * class_weight(j, c) : 0;
            value -= c == line.target ? hit : 0;
            set_float(j.dtype, dx, at, value);
        }
    }
}

int zt_launch_cross_entropy(cudaStream_t stream, const struct zt_launch_loss *j, void *loss, float *lse, void *log_p,
                            void *workspace) {
    double *sums = (double *)workspace;
    const int64_t lines = j->outer * j->inner;
    if (lines > 0)
        cross_entropy_kernel<<<job_blocks(lines), LINE, 0, stream>>>(*j, loss, lse, log_p, sums);
    if (!j->none)
        finish_kernel<<<1, FINISH, 0, stream>>>(*j, loss, sums);
    return cudaGetLastError();
}

int zt_launch_cross_entropy_grad(cudaStream_t stream, const struct zt_launch_loss *j, const void *dloss,
                                 const float *lse, void *dx, void *workspace) {
    double *sums = (double *)workspace;
    int64_t lines = j->outer * j->inner;
    if (j->mean && lines > 0)
        line_weight_kernel<<<blocks_for(lines), BLOCK, 0, stream>>>(*j, sums);
    if (j->mean)
        finish_kernel<<<1, FINISH, 0, stream>>>(*j, NULL, sums);
    if (lines > 0)
        cross_entropy_grad_kernel<<<job_blocks(lines), LINE, 0, stream>>>(*j, dloss, lse, dx, sums);
    return cudaGetLastError();
}

/* ---- losses element by element ---- */

/* The target's element; integers become floats. */
static __device__ float target_at(enum zt_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case ZT_FLOAT:
    case ZT_BFLOAT16:
        return float_at(dtype, data, i);
    case ZT_DOUBLE:
        return (float)((const double *)data)[i];
    case ZT_INT32:
    case ZT_INT64:
        return (float)int_at(dtype, data, i);
    default: /* bool, uint8 */
        return (float)((const uint8_t *)data)[i];
    }
}

static __device__ float sign_of(float d) {
    return d > 0 ? 1 : d < 0 ? -1 : d;
}

static __device__ float term_of(const struct zt_launch_element_loss &j, float x, float t) {
    const float d = fabsf(x - t);
    switch (j.term) {
    case ZT_TERM_SQUARED:
        return d * d;
    case ZT_TERM_ABSOLUTE:
        return d;
    case ZT_TERM_SMOOTH:
        return d < j.bend ? d * d / (2 * j.bend) : d - j.bend / 2;
    case ZT_TERM_HUBER:
        return d <= j.bend ? d * d / 2 : j.bend * (d - j.bend / 2);
    default:
        return (x < 0 ? 0 : x) - x * t + log1pf(expf(-fabsf(x)));
    }
}

static __device__ float slope_of(const struct zt_launch_element_loss &j, float x, float t) {
    const float d = x - t;
    switch (j.term) {
    case ZT_TERM_SQUARED:
        return 2 * d;
    case ZT_TERM_ABSOLUTE:
        return sign_of(d);
    case ZT_TERM_SMOOTH:
        return fabsf(d) < j.bend ? d / j.bend : sign_of(d);
    case ZT_TERM_HUBER:
        return fabsf(d) <= j.bend ? d : j.bend * sign_of(d);
    default:
        return 1 / (1 + expf(-x)) - t;
    }
}

static __device__ float row_weight(const struct zt_launch_element_loss &j, int64_t row) {
    return j.weight ? float_at(j.weight_dtype, j.weight, row) : 1;
}

/* sums[2 b], sums[2 b + 1]: what block b has of the weighted terms and of the weights. A row without weight may hold
 * anything. */
static __global__ void element_loss_kernel(struct zt_launch_element_loss j, bool terms, double *sums) {
    __shared__ double part[BLOCK];
    double value = 0, weight = 0;
    EACH(i, j.rows * j.width) {
        const float w = row_weight(j, i / j.width);
        weight += w;
        if (terms && w != 0)
            value += (double)w * term_of(j, float_at(j.dtype, j.x, i), target_at(j.target_dtype, j.target, i));
    }
    value = add_block<BLOCK>(value, part);
    weight = add_block<BLOCK>(weight, part);
    if (threadIdx.x == 0) {
        sums[2 * blockIdx.x] = value;
        sums[2 * blockIdx.x + 1] = weight;
    }
}

/* Behind the blocks' sums: both added up, in their order; the loss. */
static __global__ void element_finish_kernel(struct zt_launch_element_loss j, int parts, void *loss, double *sums) {
    double value = 0, weight = 0;
    if (threadIdx.x != 0)
        return;
    for (int b = 0; b < parts; b++) {
        value += sums[2 * b];
        weight += sums[2 * b + 1];
    }
    sums[2 * ZT_ELEMENT_LOSS_PARTS + 1] = weight;
    if (loss)
        set_float(j.dtype, loss, 0, weight != 0 ? (float)(value / weight) : 0);
}

static __global__ void element_grad_kernel(struct zt_launch_element_loss j, const void *dloss, void *dx,
                                           const double *sums) {
    const double total = sums[2 * ZT_ELEMENT_LOSS_PARTS + 1], d = float_at(j.dloss_dtype, dloss, 0);
    EACH(i, j.rows * j.width) {
        const float factor = total != 0 ? (float)(d * row_weight(j, i / j.width) / total) : 0;
        set_float(j.dtype, dx, i,
                  factor != 0 ? factor * slope_of(j, float_at(j.dtype, j.x, i), target_at(j.target_dtype, j.target, i))
                              : 0);
    }
}

static void add_terms(cudaStream_t stream, const struct zt_launch_element_loss *j, void *loss, double *sums) {
    const int64_t blocks = (j->rows * j->width + BLOCK - 1) / BLOCK;
    const int64_t most = ZT_ELEMENT_LOSS_PARTS;
    const int parts = (int)(blocks < most ? blocks : most);
    if (parts > 0)
        element_loss_kernel<<<(unsigned)parts, BLOCK, 0, stream>>>(*j, loss != NULL, sums);
    element_finish_kernel<<<1, 1, 0, stream>>>(*j, parts, loss, sums);
}

int zt_launch_element_loss(cudaStream_t stream, const struct zt_launch_element_loss *j, void *loss, void *workspace) {
    add_terms(stream, j, loss, (double *)workspace);
    return cudaGetLastError();
}

int zt_launch_element_loss_grad(cudaStream_t stream, const struct zt_launch_element_loss *j, const void *dloss,
                                void *dx, void *workspace) {
    const int64_t count = j->rows * j->width;
    add_terms(stream, j, NULL, (double *)workspace);
    if (count > 0)
        element_grad_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*j, dloss, dx, (const double *)workspace);
    return cudaGetLastError();
}
