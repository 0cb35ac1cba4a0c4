/* Cross entropy, its gradient, and both at once (formulas: ops/loss/class_loss.c). A block takes a row of many
 * contiguous classes, 16 bytes a load; else a thread takes a row, so that neighbouring threads read neighbouring
 * elements. One pass finds the maximum and the sum of exponentials. One block adds up the rows in a fixed order, in
 * fp64. The gradient may overwrite x: the thread that writes an element is the only one that reads it. */
#include "base/block.cuh"
#include "ops/loss/launch_class_loss.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

enum { ROW = 256, FINISH = 1024 }; /* threads */
enum { SHORT = 64 };               /* classes of a row up to which a thread takes it */
/* Threads of a block that needs its row twice, and blocks of a multiprocessor. A row, some 100 KB of a large
 * vocabulary, is kept in shared memory where TOGETHER of them fit; else the rows in progress must stay in the
 * second-level cache until they are read again. */
enum { TWICE = 256, TOGETHER = 2 };
enum { AHEAD = 4 }; /* packs that a thread loads at once */

struct row {
    int64_t start, target;
    float weight; /* weight of the target; 0 where the target does not count */
    bool wrong;   /* the target is no class */
};

static __device__ struct row row_of(const struct zt_launch_loss &j, int64_t l) {
    int64_t rows = j.outer * j.inner, each = j.samples > 0 ? rows / j.samples : 0;
    struct row row;
    row.start = l / j.inner * j.room * j.inner + l % j.inner;
    row.target = int_at(j.target_dtype, j.target, l);
    row.weight = j.row_weight ? float_at(j.row_dtype, j.row_weight, l / (each > 0 ? each : 1)) : 1;
    if (row.target == j.ignore)
        row.weight = 0;
    row.wrong = row.weight != 0 && (row.target < 0 || row.target >= j.classes);
    return row;
}

static __device__ float class_weight(const struct zt_launch_loss &j, int64_t c) {
    return j.class_weight ? float_at(j.class_dtype, j.class_weight, c) : 1;
}

/* The weight of a row in the mean. */
static __device__ float weight_of(const struct zt_launch_loss &j, const struct row &row) {
    return row.weight == 0 || row.wrong ? row.weight : row.weight * class_weight(j, row.target);
}

/* ---- elements of a row, shared by the N threads of a block ---- */

/* Elements before the first address that is a multiple of 16. */
template <class T> static __device__ int64_t before_packs(const T *x, int64_t count) {
    return least(count, (int64_t)((16 - (uintptr_t)x % 16) % 16 / sizeof(T)));
}

/* Calls body(c, x) for all elements; x is an array of the elements from c on: one, or as many as 16 bytes hold. Packs
 * are kept in `kept` unless it is NULL. */
template <int N, class T, class Body>
static __device__ void each_of(const T *x, int64_t count, struct pack<T> *kept, Body body) {
    constexpr int wide = 16 / sizeof(T);
    const int64_t head = before_packs(x, count), tail = count - (count - head) % wide;
    const int packs = (int)((tail - head) / wide); /* a row has fewer than 2^31 */
    const struct pack<T> *from = (const struct pack<T> *)(x + head);
    for (int p = threadIdx.x; p < packs; p += AHEAD * N) {
        struct pack<T> here[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (p + k * N < packs)
                here[k] = from[p + k * N];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (p + k * N < packs) {
                float v[wide];
#pragma unroll
                for (int e = 0; e < wide; e++)
                    v[e] = to_float(here[k].at[e]);
                if (kept)
                    kept[p + k * N] = here[k];
                body(head + (int64_t)(p + k * N) * wide, v);
            }
    }
    for (int64_t c = threadIdx.x; c < head + count - tail; c += N) {
        const int64_t at = c < head ? c : tail + c - head;
        const float v[1] = { to_float(x[at]) };
        body(at, v);
    }
}

template <class T, class Body> static __device__ void one_to(const T *x, T *y, int64_t c, Body body) {
    float v[1] = { to_float(x[c]) };
    body(c, v);
    y[c] = from_float<T>(v[0]);
}

/* The same; stores body's result in the element's place of y. Packs of x come from `kept`, where the same thread has
 * put them, unless it is NULL. */
template <int N, class T, class Body>
static __device__ void each_to(const T *x, T *y, int64_t count, const struct pack<T> *kept, Body body) {
    constexpr int wide = 16 / sizeof(T);
    const bool alike = (uintptr_t)x % 16 == (uintptr_t)y % 16;
    const int64_t head = alike ? before_packs(x, count) : count, tail = count - (count - head) % wide;
    const int packs = (int)((tail - head) / wide);
    for (int p = threadIdx.x; p < packs; p += AHEAD * N) {
        struct pack<T> here[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (p + k * N < packs)
                here[k] = (kept ? kept : (const struct pack<T> *)(x + head))[p + k * N];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (p + k * N < packs) {
                float v[wide];
#pragma unroll
                for (int e = 0; e < wide; e++)
                    v[e] = to_float(here[k].at[e]);
                body(head + (int64_t)(p + k * N) * wide, v);
#pragma unroll
                for (int e = 0; e < wide; e++)
                    here[k].at[e] = from_float<T>(v[e]);
                ((struct pack<T> *)(y + head))[p + k * N] = here[k];
            }
    }
    for (int64_t c = threadIdx.x; c < head + count - tail; c += N)
        one_to(x, y, c < head ? c : tail + c - head, body);
}

/* ---- the logarithm of a sum of exponentials, in one pass ---- */

/* exp of a half value, whose rounding is coarser than that of the fast function. */
template <class T> static __device__ float exp_of(float x) {
    return sizeof(T) == 2 ? __expf(x) : expf(x);
}

struct log_sum {
    float most, sum; /* sum of exp(x - most) */
};

/* Nothing is subtracted while there is no maximum: -inf then counts 0, and NaN stays. */
static __device__ float shift_of(float most) {
    return most == -CUDART_INF_F ? 0 : most;
}

template <class T, int W> static __device__ void take(struct log_sum &s, const float (&x)[W]) {
    float most = s.most;
    for (int e = 0; e < W; e++)
        most = fmaxf(most, x[e]);
    if (most > s.most)
        s = { most, s.sum * exp_of<T>(s.most - most) };
    const float shift = shift_of(most);
    for (int e = 0; e < W; e++)
        s.sum += exp_of<T>(x[e] - shift);
}

/* Of a row, by a block. */
template <int N, class T>
static __device__ float log_sum_of(const T *x, int64_t count, struct log_sum *part, struct pack<T> *kept) {
    struct log_sum mine = { -CUDART_INF_F, 0 };
    each_of<N>(x, count, kept, [&](int64_t, const auto &v) { take<T>(mine, v); });
    mine = fold_block<N>(mine, part, [](const struct log_sum &a, const struct log_sum &b) {
        const float most = fmaxf(a.most, b.most), shift = shift_of(most);
        return log_sum{ most, a.sum * expf(a.most - shift) + b.sum * expf(b.most - shift) };
    });
    return mine.most + logf(mine.sum);
}

/* ---- the loss ---- */

struct loss_out {
    void *loss, *log_p;
    float *lse;
    double *sums; /* [2 l]: weighted loss of row l, [2 l + 1]: its weight in the mean */
};

/* The terms of a row's loss. */
struct terms {
    float log_sum;
    float x_target; /* x of the target, where that is a class */
    float spread;   /* sum over c of w_c (-log p_c), computed with smoothing */
};

static __device__ void store_row(const struct zt_launch_loss &j, const struct loss_out &to, int64_t l,
                                 const struct row &row, const struct terms &terms) {
    const float weight = weight_of(j, row);
    float value = 0;
    if (row.wrong)
        value = CUDART_NAN_F;
    else if (row.weight != 0)
        value = (1 - j.smoothing) * weight * (terms.log_sum - terms.x_target) +
                j.smoothing / (float)j.classes * row.weight * terms.spread;
    to.sums[2 * l] = value;
    to.sums[2 * l + 1] = weight;
    if (to.lse)
        to.lse[l] = terms.log_sum;
    if (j.none)
        set_float(j.loss_dtype, to.loss, l, value);
}

template <class T> static __device__ float at_target(const struct zt_launch_loss &j, const struct row &row) {
    return row.wrong || row.weight == 0 ? 0 : to_float(((const T *)j.x)[row.start + row.target * j.inner]);
}

/* The term of label smoothing, by a block: sum of w_c (-log p_c). */
template <int N, class T>
static __device__ float spread_of(const struct zt_launch_loss &j, const T *x, float log_sum, float *part) {
    float spread = 0;
    if (j.smoothing == 0)
        return 0;
    each_of<N>(x, j.classes, (struct pack<T> *)NULL, [&](int64_t c, const auto &v) {
        for (size_t e = 0; e < sizeof v / sizeof *v; e++)
            spread += class_weight(j, c + (int64_t)e) * (log_sum - v[e]);
    });
    return add_block<N>(spread, part);
}

template <class T> static __global__ void long_rows_kernel(struct zt_launch_loss j, struct loss_out to) {
    __shared__ struct log_sum sums[ROW];
    __shared__ float part[ROW];
    for (int64_t l = blockIdx.x; l < j.outer; l += gridDim.x) {
        const struct row row = row_of(j, l);
        const T *x = (const T *)j.x + row.start;
        const float log_sum = j.logs ? 0 : log_sum_of<ROW>(x, j.classes, sums, (struct pack<T> *)NULL);
        if (to.log_p)
            each_to<ROW>(x, (T *)to.log_p + row.start, j.classes, (struct pack<T> *)NULL, [&](int64_t, auto &v) {
                for (float &value : v)
                    value -= log_sum;
            });
        const float spread = spread_of<ROW>(j, x, log_sum, part);
        if (threadIdx.x == 0)
            store_row(j, to, l, row, { log_sum, at_target<T>(j, row), spread });
    }
}

/* Returns log(sum(exp(x))) of the row. */
template <class T>
static __device__ float short_row(const struct zt_launch_loss &j, const struct loss_out &to, int64_t l) {
    const struct row row = row_of(j, l);
    const T *x = (const T *)j.x + row.start;
    struct log_sum s = { -CUDART_INF_F, 0 };
    float spread = 0;
    for (int64_t c = 0; !j.logs && c < j.classes; c++) {
        const float v[1] = { to_float(x[c * j.inner]) };
        take<float>(s, v);
    }
    const float log_sum = j.logs ? 0 : s.most + logf(s.sum);
    for (int64_t c = 0; to.log_p && c < j.classes; c++)
        ((T *)to.log_p)[row.start + c * j.inner] = from_float<T>(to_float(x[c * j.inner]) - log_sum);
    for (int64_t c = 0; j.smoothing != 0 && c < j.classes; c++)
        spread += class_weight(j, c) * (log_sum - to_float(x[c * j.inner]));
    store_row(j, to, l, row, { log_sum, at_target<T>(j, row), spread });
    return log_sum;
}

/* The reduced loss, by a block. The mean of no rows is 0 in ops of domain ztrain, else 0 / 0. */
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

template <class T> static __global__ void short_rows_kernel(struct zt_launch_loss j, struct loss_out to) {
    EACH(l, j.outer * j.inner) {
        short_row<T>(j, to, l);
    }
}

/* One block does all of it. */
template <class T>
static __global__ void __launch_bounds__(FINISH) few_rows_kernel(struct zt_launch_loss j, struct loss_out to) {
    __shared__ double part[FINISH];
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH)
        short_row<T>(j, to, l);
    __syncthreads();
    if (!j.none)
        finish(j, to.loss, to.sums, part);
}

/* ---- its gradient ---- */

/* The divisor of the sum of the losses, by a block. */
template <int N> static __device__ double total_of(const struct zt_launch_loss &j, double *part) {
    double weight = 0;
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += N)
        weight += weight_of(j, row_of(j, l));
    return add_block<N>(weight, part);
}
static __global__ void total_kernel(struct zt_launch_loss j, double *total) {
    __shared__ double part[FINISH];
    const double weight = total_of<FINISH>(j, part);
    if (threadIdx.x == 0)
        *total = weight;
}

/* Of a row: dx_c = both p_c - spread w_c - [c = target] hit. */
struct slope {
    float both, spread, hit, log_sum;
    bool flat; /* p has no part in it */
};

static __device__ struct slope slope_of(const struct zt_launch_loss &j, const struct row &row, float d, double total,
                                        float classes_weight) {
    const float factor = row.wrong ? CUDART_NAN_F : row.weight != 0 && total != 0 ? (float)(d * row.weight / total) : 0;
    struct slope s;
    s.hit = factor == 0 || row.wrong ? factor : factor * (1 - j.smoothing) * class_weight(j, row.target);
    s.spread = factor * j.smoothing / (float)j.classes;
    s.both = s.hit + s.spread * classes_weight;
    s.flat = factor == 0 || j.logs;
    return s;
}

/* Gradients of the elements from c on, which they overwrite. */
template <class T, int W>
static __device__ void along(const struct zt_launch_loss &j, const struct slope &s, int64_t target, int64_t c,
                             float (&v)[W]) {
    for (int e = 0; e < W; e++)
        v[e] = s.flat ? 0 : s.both * exp_of<T>(v[e] - s.log_sum);
    for (int e = 0; s.spread != 0 && e < W; e++)
        v[e] -= s.spread * class_weight(j, c + e);
    if (target >= c && target < c + W)
        for (int e = 0; e < W; e++)
            v[e] -= c + e == target ? s.hit : 0;
}

struct loss_grad {
    const void *dloss;
    const float *lse; /* not read by kernels that compute it */
    double *total;    /* needed for the mean; NULL: so few rows that every block adds up their weights */
    void *dx;
};

static __device__ struct slope read_slope(const struct zt_launch_loss &j, const struct loss_grad &g, int64_t l,
                                          const struct row &row, double total, float classes_weight) {
    return slope_of(j, row, float_at(j.loss_dtype, g.dloss, j.none ? l : 0), total, classes_weight);
}

/* The sum of the classes' weights, by a block. */
template <int N> static __device__ float classes_weight_of(const struct zt_launch_loss &j, float *part) {
    float weight = 0;
    for (int64_t c = threadIdx.x; j.smoothing != 0 && c < j.classes; c += N)
        weight += class_weight(j, c);
    return add_block<N>(weight, part);
}

template <int N, class T>
static __device__ void long_grad(const struct zt_launch_loss &j, const struct loss_grad &g, const struct row &row,
                                 const struct slope &s, const struct pack<T> *kept) {
    each_to<N>((const T *)j.x + row.start, (T *)g.dx + row.start, j.classes, kept,
               [&](int64_t c, auto &v) { along<T>(j, s, row.target, c, v); });
    for (int64_t c = j.classes + threadIdx.x; c < j.room; c += N)
        ((T *)g.dx)[row.start + c] = from_float<T>(0);
}

template <class T> static __global__ void long_grads_kernel(struct zt_launch_loss j, struct loss_grad g) {
    __shared__ float part[ROW];
    const float classes_weight = classes_weight_of<ROW>(j, part);
    for (int64_t l = blockIdx.x; l < j.outer; l += gridDim.x) {
        const struct row row = row_of(j, l);
        struct slope s = read_slope(j, g, l, row, j.mean ? *g.total : 1, classes_weight);
        s.log_sum = s.flat ? 0 : g.lse[l];
        long_grad<ROW, T>(j, g, row, s, NULL);
    }
}

static __device__ float all_classes_weight(const struct zt_launch_loss &j) {
    float weight = 0;
    for (int64_t c = 0; j.smoothing != 0 && c < j.classes; c++)
        weight += class_weight(j, c);
    return weight;
}

template <class T>
static __device__ void short_grad(const struct zt_launch_loss &j, const struct loss_grad &g, const struct row &row,
                                  const struct slope &s) {
    for (int64_t c = 0; c < j.classes; c++) {
        const int64_t at = row.start + c * j.inner;
        float v[1] = { to_float(((const T *)j.x)[at]) };
        along<float>(j, s, row.target, c, v);
        ((T *)g.dx)[at] = from_float<T>(v[0]);
    }
    for (int64_t c = j.classes; c < j.room; c++)
        ((T *)g.dx)[row.start + c * j.inner] = from_float<T>(0);
}

template <class T>
static __device__ void short_grad_at(const struct zt_launch_loss &j, const struct loss_grad &g, int64_t l, double total,
                                     float classes_weight) {
    const struct row row = row_of(j, l);
    struct slope s = read_slope(j, g, l, row, total, classes_weight);
    s.log_sum = s.flat ? 0 : g.lse[l];
    short_grad<T>(j, g, row, s);
}

template <class T> static __global__ void short_grads_kernel(struct zt_launch_loss j, struct loss_grad g) {
    const float classes_weight = all_classes_weight(j);
    const double total = j.mean ? *g.total : 1;
    EACH(l, j.outer * j.inner) {
        short_grad_at<T>(j, g, l, total, classes_weight);
    }
}

template <class T>
static __global__ void __launch_bounds__(FINISH) few_grads_kernel(struct zt_launch_loss j, struct loss_grad g) {
    __shared__ double part[FINISH];
    const float classes_weight = all_classes_weight(j);
    const double total = j.mean ? total_of<FINISH>(j, part) : 1;
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH)
        short_grad_at<T>(j, g, l, total, classes_weight);
}

/* ---- both at once: the gradient of the loss is known, and the weights of the rows do not depend on x ---- */

/* A barrier separates all reads of the row's x, that of the target among them, from the first write. */
template <class T, bool KEEPS>
static __global__ void __launch_bounds__(TWICE, TOGETHER)
    long_train_kernel(struct zt_launch_loss j, struct loss_out to, struct loss_grad g) {
    __shared__ struct log_sum sums[TWICE];
    __shared__ float part[TWICE];
    __shared__ double weights[TWICE];
    DYNAMIC_SHARED(row_packs);
    struct pack<T> *const kept = KEEPS ? (struct pack<T> *)row_packs : NULL;
    const float classes_weight = classes_weight_of<TWICE>(j, part);
    const double total = !j.mean ? 1 : g.total ? *g.total : total_of<TWICE>(j, weights);
    for (int64_t l = blockIdx.x; l < j.outer; l += gridDim.x) {
        const struct row row = row_of(j, l);
        const T *x = (const T *)j.x + row.start;
        const float x_target = at_target<T>(j, row), log_sum = log_sum_of<TWICE>(x, j.classes, sums, kept),
                    spread = spread_of<TWICE>(j, x, log_sum, part);
        struct slope s = read_slope(j, g, l, row, total, classes_weight);
        s.log_sum = log_sum;
        if (threadIdx.x == 0)
            store_row(j, to, l, row, { log_sum, x_target, spread });
        long_grad<TWICE, T>(j, g, row, s, kept);
    }
}

template <class T>
static __device__ void short_train(const struct zt_launch_loss &j, const struct loss_out &to, const struct loss_grad &g,
                                   int64_t l, double total, float classes_weight) {
    const struct row row = row_of(j, l);
    struct slope s = read_slope(j, g, l, row, total, classes_weight);
    s.log_sum = short_row<T>(j, to, l);
    short_grad<T>(j, g, row, s);
}

template <class T>
static __global__ void short_train_kernel(struct zt_launch_loss j, struct loss_out to, struct loss_grad g) {
    const float classes_weight = all_classes_weight(j);
    const double total = j.mean ? *g.total : 1;
    EACH(l, j.outer * j.inner) {
        short_train<T>(j, to, g, l, total, classes_weight);
    }
}

template <class T>
static __global__ void __launch_bounds__(FINISH)
    few_train_kernel(struct zt_launch_loss j, struct loss_out to, struct loss_grad g) {
    __shared__ double part[FINISH];
    const float classes_weight = all_classes_weight(j);
    const double total = j.mean ? total_of<FINISH>(j, part) : 1;
    for (int64_t l = threadIdx.x; l < j.outer * j.inner; l += FINISH)
        short_train<T>(j, to, g, l, total, classes_weight);
    __syncthreads();
    if (!j.none)
        finish(j, to.loss, to.sums, part);
}

/* ---- launching ---- */

static bool are_long(const struct zt_launch_loss *j) {
    return j->inner == 1 && j->classes > SHORT;
}

/* So few short rows that one block finishes them before a second launch starts. */
static bool are_few(const struct zt_launch_loss *j) {
    const int64_t rows = j->outer * j->inner;
    return rows == 0 || (!are_long(j) && rows <= FINISH);
}

template <class T> static void launch_rows(cudaStream_t stream, const struct zt_launch_loss *j, struct loss_out to) {
    const int64_t rows = j->outer * j->inner;
    if (are_few(j))
        few_rows_kernel<T><<<1, FINISH, 0, stream>>>(*j, to);
    else if (are_long(j))
        long_rows_kernel<T><<<job_blocks(rows), ROW, 0, stream>>>(*j, to);
    else
        short_rows_kernel<T><<<blocks_for(rows), BLOCK, 0, stream>>>(*j, to);
    if (!are_few(j) && !j->none)
        finish_kernel<<<1, FINISH, 0, stream>>>(*j, to.loss, to.sums);
}

template <class T> static void launch_grads(cudaStream_t stream, const struct zt_launch_loss *j, struct loss_grad g) {
    const int64_t rows = j->outer * j->inner;
    if (!are_few(j) && j->mean)
        total_kernel<<<1, FINISH, 0, stream>>>(*j, g.total);
    if (are_few(j))
        few_grads_kernel<T><<<1, FINISH, 0, stream>>>(*j, g);
    else if (are_long(j))
        long_grads_kernel<T><<<job_blocks(rows), ROW, 0, stream>>>(*j, g);
    else
        short_grads_kernel<T><<<blocks_for(rows), BLOCK, 0, stream>>>(*j, g);
}

/* Bytes of shared memory that TOGETHER blocks of a multiprocessor can have for a row each, beside those that the kernel
 * and the driver need; 0: so many blocks have no room for a row. */
static int row_room(int64_t row_bytes) {
    enum { OTHERS = TWICE * (int)(sizeof(struct log_sum) + sizeof(float) + sizeof(double)) + 1024 };
    int device = 0, room = 0;
    const bool known =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) == cudaSuccess;
    return known && row_bytes <= room / TOGETHER - OTHERS ? (int)row_bytes : 0;
}

template <class T>
static void launch_long_train(cudaStream_t stream, const struct zt_launch_loss *j, struct loss_out to,
                              struct loss_grad g) {
    const int bytes = row_room((j->classes * (int64_t)sizeof(T) + 15) / 16 * 16);
    const unsigned blocks = job_blocks(j->outer);
    if (bytes && cudaFuncSetAttribute((const void *)long_train_kernel<T, true>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess)
        long_train_kernel<T, true><<<blocks, TWICE, (size_t)bytes, stream>>>(*j, to, g);
    else
        long_train_kernel<T, false><<<blocks, TWICE, 0, stream>>>(*j, to, g);
}

template <class T>
static void launch_train(cudaStream_t stream, const struct zt_launch_loss *j, struct loss_out to, struct loss_grad g) {
    const int64_t rows = j->outer * j->inner;
    if (are_few(j)) {
        few_train_kernel<T><<<1, FINISH, 0, stream>>>(*j, to, g);
        return;
    }
    if (are_long(j) && rows <= FINISH)
        g.total = NULL;
    else if (j->mean)
        total_kernel<<<1, FINISH, 0, stream>>>(*j, g.total);
    if (are_long(j))
        launch_long_train<T>(stream, j, to, g);
    else
        short_train_kernel<T><<<blocks_for(rows), BLOCK, 0, stream>>>(*j, to, g);
    if (!j->none)
        finish_kernel<<<1, FINISH, 0, stream>>>(*j, to.loss, to.sums);
}

int zt_launch_cross_entropy(cudaStream_t stream, const struct zt_launch_loss *j, void *loss, float *lse, void *log_p,
                            void *workspace) {
    const struct loss_out to = { loss, log_p, lse, (double *)workspace };
    WITH_TYPE(j->dtype, 1, (launch_rows<T>(stream, j, to))); /* of no row, too */
}

int zt_launch_cross_entropy_grad(cudaStream_t stream, const struct zt_launch_loss *j, const void *dloss,
                                 const float *lse, void *dx, void *workspace) {
    const struct loss_grad g = { dloss, lse, (double *)workspace, dx };
    WITH_TYPE(j->dtype, j->outer * j->inner, (launch_grads<T>(stream, j, g)));
}

int zt_launch_cross_entropy_train(cudaStream_t stream, const struct zt_launch_loss *j, const void *dloss, void *loss,
                                  void *dx, void *workspace) {
    double *sums = (double *)workspace;
    const struct loss_out to = { loss, NULL, NULL, sums };
    const struct loss_grad g = { dloss, NULL, sums + 2 * j->outer * j->inner, dx };
    WITH_TYPE(j->dtype, 1, (launch_train<T>(stream, j, to, g))); /* of no row, too */
}
