/* Cross entropy and its gradient (formulas: ops/loss_class.c). A block takes a line of many classes that lie beside
 * each other, 16 bytes a load; else a thread takes a line, so that threads beside each other read what lies side by
 * side. Maximum and sum of exponentials are found in one pass. What lines give is added by one block in a fixed order,
 * in fp64. */
#include "base/block.cuh"
#include "ops/launch_cuda.h"
#include "ops/types.cuh"

#include <math_constants.h>

enum { LINE = 256, FINISH = 1024 }; /* threads */
enum { SHORT = 64 };                /* classes up to which a thread takes a line */

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

/* The weight of a line in the mean. */
static __device__ float weight_of(const struct zt_launch_loss &j, const struct line &line) {
    return line.weight == 0 || line.wrong ? line.weight : line.weight * class_weight(j, line.target);
}

/* ---- elements of a line, shared out among the threads of a block ---- */

/* How many elements stand before the first address that is a multiple of 16. */
template <class T> static __device__ int64_t before_packs(const T *x, int64_t count) {
    return least(count, (int64_t)((16 - (uintptr_t)x % 16) % 16 / sizeof(T)));
}

/* body(c, x[c]) for every c. */
template <class T, class Body> static __device__ void each_of(const T *x, int64_t count, Body body) {
    constexpr int wide = 16 / sizeof(T);
    const int64_t head = before_packs(x, count), packs = (count - head) / wide, tail = head + packs * wide;
    const struct pack<T> *from = (const struct pack<T> *)(x + head);
    if (threadIdx.x < head)
        body((int64_t)threadIdx.x, to_float(x[threadIdx.x]));
    for (int64_t p = threadIdx.x; p < packs; p += LINE) {
        const struct pack<T> here = from[p];
        for (int e = 0; e < wide; e++)
            body(head + p * wide + e, to_float(here.at[e]));
    }
    if (tail + threadIdx.x < count)
        body(tail + threadIdx.x, to_float(x[tail + threadIdx.x]));
}

/* y[c] = body(c, x[c]) for every c. */
template <class T, class Body> static __device__ void each_to(const T *x, T *y, int64_t count, Body body) {
    constexpr int wide = 16 / sizeof(T);
    const bool alike = (uintptr_t)x % 16 == (uintptr_t)y % 16;
    const int64_t head = alike ? before_packs(x, count) : count, packs = (count - head) / wide,
                  tail = head + packs * wide;
    for (int64_t c = threadIdx.x; c < head; c += LINE)
        y[c] = from_float<T>(body(c, to_float(x[c])));
    for (int64_t p = threadIdx.x; p < packs; p += LINE) {
        struct pack<T> here = ((const struct pack<T> *)(x + head))[p];
        for (int e = 0; e < wide; e++)
            here.at[e] = from_float<T>(body(head + p * wide + e, to_float(here.at[e])));
        ((struct pack<T> *)(y + head))[p] = here;
    }
    if (tail + threadIdx.x < count)
        y[tail + threadIdx.x] = from_float<T>(body(tail + threadIdx.x, to_float(x[tail + threadIdx.x])));
}

/* ---- the logarithm of a sum of exponentials, in one pass ---- */

struct log_sum {
    float most, sum; /* sum of exp(x - most) */
};

static __device__ void take(struct log_sum &s, float x) {
    if (x > s.most) {
        s.sum = s.sum * expf(s.most - x) + 1;
        s.most = x;
    } else if (x != -CUDART_INF_F) {
        s.sum += expf(x - s.most);
    }
}

static __device__ float join(struct log_sum mine, float *part) {
    const float most = fold_block<LINE>(mine.most, part, [](float a, float b) { return fmaxf(a, b); });
    return most + logf(add_block<LINE>(mine.sum == 0 ? 0 : mine.sum * expf(mine.most - most), part));
}

/* ---- the loss ---- */

struct loss_out {
    void *loss, *log_p;
    float *lse;
    double *sums; /* [2 l]: weighted loss of line l, [2 l + 1]: its weight in the mean */
};

/* x_target: of the target where it is a class; spread: sum over c of w_c (-log p_c), asked for with smoothing. */
static __device__ void store_line(const struct zt_launch_loss &j, const struct loss_out &to, int64_t l,
                                  const struct line &line, float log_sum, float x_target, float spread) {
    const float weight = weight_of(j, line);
    float value = 0;
    if (line.wrong)
        value = CUDART_NAN_F;
    else if (line.weight != 0)
        value =
            (1 - j.smoothing) * weight * (log_sum - x_target) + j.smoothing / (float)j.classes * line.weight * spread;
    to.sums[2 * l] = value;
    to.sums[2 * l + 1] = weight;
    if (to.lse)
        to.lse[l] = log_sum;
    if (j.none)
        set_float(j.loss_dtype, to.loss, l, value);
}

template <class T> static __device__ float at_target(const struct zt_launch_loss &j, const struct line &line) {
    return line.wrong || line.weight == 0 ? 0 : to_float(((const T *)j.x)[line.start + line.target * j.inner]);
}

template <class T> static __global__ void long_lines_kernel(struct zt_launch_loss j, struct loss_out to) {
    __shared__ float part[LINE];
    for (int64_t l = blockIdx.x; l < j.outer; l += gridDim.x) {
        const struct line line = line_of(j, l);
        const T *x = (const T *)j.x + line.start;
        struct log_sum mine = { -CUDART_INF_F, 0 };
        float spread = 0;
        if (!j.logs)
            each_of(x, j.classes, [&](int64_t, float v) { take(mine, v); });
        const float log_sum = j.logs ? 0 : join(mine, part);
        if (to.log_p)
            each_to(x, (T *)to.log_p + line.start, j.classes, [&](int64_t, float v) { return v - log_sum; });
        if (j.smoothing != 0) {
            each_of(x, j.classes, [&](int64_t c, float v) { spread += class_weight(j, c) * (log_sum - v); });
            spread = add_block<LINE>(spread, part);
        }
        if (threadIdx.x == 0)
            store_line(j, to, l, line, log_sum, at_target<T>(j, line), spread);
    }
}

template <class T>
static __device__ void short_line(const struct zt_launch_loss &j, const struct loss_out &to, int64_t l) {
    const struct line line = line_of(j, l);
    const T *x = (const T *)j.x + line.start;
    struct log_sum s = { -CUDART_INF_F, 0 };
    float spread = 0;
    for (int64_t c = 0; !j.logs && c < j.classes; c++)
        take(s, to_float(x[c * j.inner]));
    const float log_sum = j.logs ? 0 : s.most + logf(s.sum);
    for (int64_t c = 0; to.log_p && c < j.classes; c++)
        ((T *)to.log_p)[line.start + c * j.inner] = from_float<T>(to_float(x[c * j.inner]) - log_sum);
    for (int64_t c = 0; j.smoothing != 0 && c < j.classes; c++)
        spread += class_weight(j, c) * (log_sum - to_float(x[c * j.inner]));
    store_line(j, to, l, line, log_sum, at_target<T>(j, line), spread);
}

/* The loss where it is one number, by a block. The mean of nothing is 0 in rows of ours, else 0 / 0. */
static __device__ void finish(const struct zt_launch_loss &j, void *loss, const double *sums, double *part) {
    double value = 0, weight = 0;
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH) {
        value += sums[2 * l];
        weight += sums[2 * l + 1];
    }
    value = add_block<FINISH>(value, part);
    weight = add_block<FINISH>(weight, part);
    if (threadIdx.x == 0)
        set_float(j.loss_dtype, loss, 0, (float)(!j.mean ? value : weight != 0 || !j.own ? value / weight : 0));
}
static __global__ void finish_kernel(struct zt_launch_loss j, void *loss, const double *sums) {
    __shared__ double part[FINISH];
    finish(j, loss, sums, part);
}

template <class T> static __global__ void short_lines_kernel(struct zt_launch_loss j, struct loss_out to) {
    EACH(l, j.outer * j.inner) {
        short_line<T>(j, to, l);
    }
}

/* A block for all of it. */
template <class T>
static __global__ void __launch_bounds__(FINISH) few_lines_kernel(struct zt_launch_loss j, struct loss_out to) {
    __shared__ double part[FINISH];
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH)
        short_line<T>(j, to, l);
    __syncthreads();
    if (!j.none)
        finish(j, to.loss, to.sums, part);
}

/* ---- its gradient ---- */

/* What the sum of the losses was divided by, by a block. */
static __device__ double total_of(const struct zt_launch_loss &j, double *part) {
    double weight = 0;
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH)
        weight += weight_of(j, line_of(j, l));
    return add_block<FINISH>(weight, part);
}
static __global__ void total_kernel(struct zt_launch_loss j, double *total) {
    __shared__ double part[FINISH];
    const double weight = total_of(j, part);
    if (threadIdx.x == 0)
        *total = weight;
}

/* Of a line: dx_c = both p_c - spread w_c - [c = target] hit. */
struct slope {
    float both, spread, hit, log_sum;
    bool flat; /* p counts nothing */
};

static __device__ struct slope slope_of(const struct zt_launch_loss &j, const struct line &line, float d, double total,
                                        float classes_weight) {
    const float factor = line.wrong                       ? CUDART_NAN_F
                         : line.weight != 0 && total != 0 ? (float)(d * line.weight / total)
                                                          : 0;
    struct slope s;
    s.hit = factor == 0 || line.wrong ? factor : factor * (1 - j.smoothing) * class_weight(j, line.target);
    s.spread = factor * j.smoothing / (float)j.classes;
    s.both = s.hit + s.spread * classes_weight;
    s.flat = factor == 0 || j.logs;
    return s;
}

static __device__ float along(const struct zt_launch_loss &j, const struct slope &s, int64_t target, int64_t c,
                              float x) {
    float value = s.flat ? 0 : s.both * expf(x - s.log_sum);
    value -= s.spread != 0 ? s.spread * class_weight(j, c) : 0;
    return value - (c == target ? s.hit : 0);
}

struct loss_grad {
    const void *dloss;
    const float *lse;
    double *total; /* asked for with the mean */
    void *dx;
};

static __device__ struct slope read_slope(const struct zt_launch_loss &j, const struct loss_grad &g, int64_t l,
                                          const struct line &line, double total, float classes_weight) {
    const float d = float_at(j.loss_dtype, g.dloss, j.none ? l : 0);
    struct slope s = slope_of(j, line, d, total, classes_weight);
    s.log_sum = s.flat ? 0 : g.lse[l];
    return s;
}

template <class T> static __global__ void long_grads_kernel(struct zt_launch_loss j, struct loss_grad g) {
    __shared__ float part[LINE];
    float classes_weight = 0;
    for (int64_t c = threadIdx.x; j.smoothing != 0 && c < j.classes; c += LINE)
        classes_weight += class_weight(j, c);
    classes_weight = add_block<LINE>(classes_weight, part);
    for (int64_t l = blockIdx.x; l < j.outer; l += gridDim.x) {
        const struct line line = line_of(j, l);
        const struct slope s = read_slope(j, g, l, line, j.mean ? *g.total : 1, classes_weight);
        each_to((const T *)j.x + line.start, (T *)g.dx + line.start, j.classes,
                [&](int64_t c, float x) { return along(j, s, line.target, c, x); });
    }
}

static __device__ float all_classes_weight(const struct zt_launch_loss &j) {
    float weight = 0;
    for (int64_t c = 0; j.smoothing != 0 && c < j.classes; c++)
        weight += class_weight(j, c);
    return weight;
}

template <class T>
static __device__ void short_grad(const struct zt_launch_loss &j, const struct loss_grad &g, int64_t l, double total,
                                  float classes_weight) {
    const struct line line = line_of(j, l);
    const struct slope s = read_slope(j, g, l, line, total, classes_weight);
    for (int64_t c = 0; c < j.classes; c++) {
        const int64_t at = line.start + c * j.inner;
        ((T *)g.dx)[at] = from_float<T>(along(j, s, line.target, c, to_float(((const T *)j.x)[at])));
    }
}

template <class T> static __global__ void short_grads_kernel(struct zt_launch_loss j, struct loss_grad g) {
    const float classes_weight = all_classes_weight(j);
    const double total = j.mean ? *g.total : 1;
    EACH(l, j.outer * j.inner) {
        short_grad<T>(j, g, l, total, classes_weight);
    }
}

template <class T>
static __global__ void __launch_bounds__(FINISH) few_grads_kernel(struct zt_launch_loss j, struct loss_grad g) {
    __shared__ double part[FINISH];
    const float classes_weight = all_classes_weight(j);
    const double total = j.mean ? total_of(j, part) : 1;
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH)
        short_grad<T>(j, g, l, total, classes_weight);
}

/* ---- launching ---- */

static bool are_long(const struct zt_launch_loss *j) {
    return j->inner == 1 && j->classes > SHORT;
}

/* So few short lines that one block is done with them sooner than a second launch begins. */
static bool are_few(const struct zt_launch_loss *j) {
    const int64_t lines = j->outer * j->inner;
    return lines == 0 || (!are_long(j) && lines <= FINISH);
}

template <class T> static void launch_lines(cudaStream_t stream, const struct zt_launch_loss *j, struct loss_out to) {
    const int64_t lines = j->outer * j->inner;
    if (are_few(j))
        few_lines_kernel<T><<<1, FINISH, 0, stream>>>(*j, to);
    else if (are_long(j))
        long_lines_kernel<T><<<job_blocks(lines), LINE, 0, stream>>>(*j, to);
    else
        short_lines_kernel<T><<<blocks_for(lines), BLOCK, 0, stream>>>(*j, to);
    if (!are_few(j) && !j->none)
        finish_kernel<<<1, FINISH, 0, stream>>>(*j, to.loss, to.sums);
}

template <class T> static void launch_grads(cudaStream_t stream, const struct zt_launch_loss *j, struct loss_grad g) {
    const int64_t lines = j->outer * j->inner;
    if (!are_few(j) && j->mean)
        total_kernel<<<1, FINISH, 0, stream>>>(*j, g.total);
    if (are_few(j))
        few_grads_kernel<T><<<1, FINISH, 0, stream>>>(*j, g);
    else if (are_long(j))
        long_grads_kernel<T><<<job_blocks(lines), LINE, 0, stream>>>(*j, g);
    else
        short_grads_kernel<T><<<blocks_for(lines), BLOCK, 0, stream>>>(*j, g);
}

int zt_launch_cross_entropy(cudaStream_t stream, const struct zt_launch_loss *j, void *loss, float *lse, void *log_p,
                            void *workspace) {
    const struct loss_out to = { loss, log_p, lse, (double *)workspace };
    if (j->dtype == ZT_BFLOAT16)
        launch_lines<__nv_bfloat16>(stream, j, to);
    else if (j->dtype == ZT_FLOAT16)
        launch_lines<__half>(stream, j, to);
    else
        launch_lines<float>(stream, j, to);
    return cudaGetLastError();
}

int zt_launch_cross_entropy_grad(cudaStream_t stream, const struct zt_launch_loss *j, const void *dloss,
                                 const float *lse, void *dx, void *workspace) {
    const struct loss_grad g = { dloss, lse, (double *)workspace, dx };
    if (j->outer * j->inner <= 0)
        return cudaSuccess;
    if (j->dtype == ZT_BFLOAT16)
        launch_grads<__nv_bfloat16>(stream, j, g);
    else if (j->dtype == ZT_FLOAT16)
        launch_grads<__half>(stream, j, g);
    else
        launch_grads<float>(stream, j, g);
    return cudaGetLastError();
}

/* ---- losses element by element ---- */

/* The target's element; integers become floats. */
static __device__ float target_at(enum zt_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case ZT_FLOAT:
    case ZT_BFLOAT16:
    case ZT_FLOAT16:
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
