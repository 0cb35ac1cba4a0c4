/* Kernels over lines: softmax and its relatives, places of extremes and running sums. A block takes a line; sums
 * are fp32 in an order that depends on the length alone. */
#include "ops/cuda/rows.cuh"

enum { LINE = 128 };

static __device__ int64_t start_of(int64_t line, int64_t length, int64_t inner) {
    return line / inner * length * inner + line % inner;
}

static __device__ struct found most_of(const struct zt_launch_tensor &x, int64_t start, int64_t length, int64_t inner,
                                       bool least, bool last, struct found *places) {
    struct found best = { 0, -1 };
    for (int64_t i = threadIdx.x; i < length; i += LINE) {
        struct found here = { get(x, start + i * inner), i };
        best = beats(here, best, least, last) ? here : best;
    }
    return first_block<LINE>(best, least, last, places);
}

/* ---- softmax, log softmax, hardmax ---- */

static __global__ void softmax_kernel(struct zt_launch_rows l, struct zt_launch_tensor x, struct zt_launch_tensor y) {
    __shared__ float part[LINE];
    __shared__ struct found places[LINE];
    for (int64_t line = blockIdx.x; line < l.outer * l.inner; line += gridDim.x) {
        const int64_t start = start_of(line, l.length, l.inner);
        const struct found most = most_of(x, start, l.length, l.inner, false, false, places);
        float sum = 0;
        for (int64_t i = threadIdx.x; l.rule != ZT_ROWS_HARDMAX && i < l.length; i += LINE)
            sum += expf(get(x, start + i * l.inner) - most.value);
        sum = add_block<LINE>(sum, part);
        const float shift = l.rule == ZT_ROWS_LOG_SOFTMAX ? logf(sum) : 0;
        for (int64_t i = threadIdx.x; i < l.length; i += LINE) {
            const int64_t at = start + i * l.inner;
            const float v = get(x, at);
            put(y, at,
                l.rule == ZT_ROWS_SOFTMAX       ? expf(v - most.value) / sum
                : l.rule == ZT_ROWS_LOG_SOFTMAX ? v - most.value - shift
                                                : (i == most.at ? 1 : 0));
        }
    }
}

static __global__ void softmax_grad_kernel(struct zt_launch_rows l, struct zt_launch_tensor dy,
                                           struct zt_launch_tensor y, struct zt_launch_tensor dx) {
    __shared__ float part[LINE];
    const bool logs = l.rule == ZT_ROWS_LOG_SOFTMAX_GRAD;
    for (int64_t line = blockIdx.x; line < l.outer * l.inner; line += gridDim.x) {
        const int64_t start = start_of(line, l.length, l.inner);
        float sum = 0;
        for (int64_t i = threadIdx.x; i < l.length; i += LINE) {
            const int64_t at = start + i * l.inner;
            sum += logs ? get(dy, at) : get(dy, at) * get(y, at);
        }
        sum = add_block<LINE>(sum, part);
        for (int64_t i = threadIdx.x; i < l.length; i += LINE) {
            const int64_t at = start + i * l.inner;
            const float g = get(dy, at), v = get(y, at);
            put(dx, at, logs ? g - expf(v) * sum : v * (g - sum));
        }
    }
}

/* ---- LpNormalization ---- */

static __device__ float norm_of(const struct zt_launch_rows &l, const struct zt_launch_tensor &x, int64_t start,
                                float *part) {
    float sum = 0;
    for (int64_t i = threadIdx.x; i < l.length; i += LINE) {
        const float v = get(x, start + i * l.inner);
        sum += l.power == 1 ? fabsf(v) : v * v;
    }
    sum = add_block<LINE>(sum, part);
    return l.power == 1 ? sum : sqrtf(sum);
}

static __global__ void lp_kernel(struct zt_launch_rows l, struct zt_launch_tensor x, struct zt_launch_tensor y) {
    __shared__ float part[LINE];
    for (int64_t line = blockIdx.x; line < l.outer * l.inner; line += gridDim.x) {
        const int64_t start = start_of(line, l.length, l.inner);
        const float norm = norm_of(l, x, start, part);
        for (int64_t i = threadIdx.x; i < l.length; i += LINE)
            put(y, start + i * l.inner, norm == 0 ? 0 : get(x, start + i * l.inner) / norm);
    }
}

static __global__ void lp_grad_kernel(struct zt_launch_rows l, struct zt_launch_tensor dy, struct zt_launch_tensor x,
                                      struct zt_launch_tensor dx) {
    __shared__ float part[LINE];
    for (int64_t line = blockIdx.x; line < l.outer * l.inner; line += gridDim.x) {
        const int64_t start = start_of(line, l.length, l.inner);
        const float norm = norm_of(l, x, start, part);
        float sum = 0;
        for (int64_t i = threadIdx.x; i < l.length; i += LINE)
            sum += norm == 0 ? 0 : get(dy, start + i * l.inner) * get(x, start + i * l.inner) / norm;
        sum = add_block<LINE>(sum, part);
        for (int64_t i = threadIdx.x; i < l.length; i += LINE) {
            const int64_t at = start + i * l.inner;
            const float v = get(x, at), slope = l.power == 1 ? (float)((v > 0) - (v < 0)) : v / norm;
            put(dx, at, norm == 0 ? 0 : (get(dy, at) - slope * sum) / norm);
        }
    }
}

int zt_launch_rows(cudaStream_t stream, const struct zt_launch_rows *l, struct zt_launch_tensor a,
                   struct zt_launch_tensor b, struct zt_launch_tensor y) {
    const int64_t lines = l->length > 0 ? l->outer * l->inner : 0;
    if (lines == 0)
        return cudaSuccess;
    switch (l->rule) {
    case ZT_ROWS_SOFTMAX_GRAD:
    case ZT_ROWS_LOG_SOFTMAX_GRAD:
        softmax_grad_kernel<<<job_blocks(lines), LINE, 0, stream>>>(*l, a, b, y);
        break;
    case ZT_ROWS_LP:
        lp_kernel<<<job_blocks(lines), LINE, 0, stream>>>(*l, a, y);
        break;
    case ZT_ROWS_LP_GRAD:
        lp_grad_kernel<<<job_blocks(lines), LINE, 0, stream>>>(*l, a, b, y);
        break;
    default:
        softmax_kernel<<<job_blocks(lines), LINE, 0, stream>>>(*l, a, y);
    }
    return cudaGetLastError();
}

/* ---- places of extremes ---- */

static __global__ void extreme_kernel(struct zt_launch_extreme e, struct zt_launch_tensor x, int64_t *y) {
    __shared__ struct found places[LINE];
    for (int64_t line = blockIdx.x; line < e.outer * e.inner; line += gridDim.x) {
        const struct found best =
            most_of(x, start_of(line, e.length, e.inner), e.length, e.inner, e.least, e.last, places);
        if (threadIdx.x == 0)
            y[line] = best.at;
    }
}

/* Integers, whose digits a float does not hold: a thread a line. */
static __global__ void extreme_int_kernel(struct zt_launch_extreme e, struct zt_launch_tensor x, int64_t *y) {
    EACH(line, e.outer * e.inner) {
        const int64_t start = start_of(line, e.length, e.inner);
        int64_t best = 0, at = -1;
        for (int64_t i = 0; i < e.length; i++) {
            const int64_t v = int_at(x.dtype, x.data, start + i * e.inner);
            if (at < 0 || (e.least ? v < best : v > best) || (e.last && v == best)) {
                best = v;
                at = i;
            }
        }
        y[line] = at;
    }
}

int zt_launch_extreme(cudaStream_t stream, const struct zt_launch_extreme *e, struct zt_launch_tensor x, int64_t *y) {
    const int64_t lines = e->outer * e->inner;
    if (lines == 0)
        return cudaSuccess;
    if (x.dtype == ZT_INT32 || x.dtype == ZT_INT64)
        extreme_int_kernel<<<blocks_for(lines), BLOCK, 0, stream>>>(*e, x, y);
    else
        extreme_kernel<<<job_blocks(lines), LINE, 0, stream>>>(*e, x, y);
    return cudaGetLastError();
}

/* ---- running sums: a thread a line ---- */

template <class T> static __global__ void cumulate_kernel(struct zt_launch_cumulate c, const T *x, T *y) {
    using V = decltype(to_number(T{}) + 0ull); /* integers wrap */
    EACH(line, c.outer * c.inner) {
        const int64_t start = start_of(line, c.length, c.inner);
        V all = c.product ? 1 : 0;
        for (int64_t k = 0; k < c.length; k++) {
            const int64_t at = start + (c.reverse ? c.length - 1 - k : k) * c.inner;
            const V v = (V)to_number(x[at]), next = c.product ? all * v : all + v;
            y[at] = of_number<T>(c.exclusive ? all : next);
            all = next;
        }
    }
}

int zt_launch_cumulate(cudaStream_t stream, const struct zt_launch_cumulate *c, struct zt_launch_tensor x,
                       struct zt_launch_tensor y) {
    const int64_t lines = c->outer * c->inner;
    WITH_NUMBER(x.dtype, lines,
                (cumulate_kernel<T><<<blocks_for(lines), BLOCK, 0, stream>>>(*c, (const T *)x.data, (T *)y.data)));
}

/* ---- CountCorrect ---- */

/* The numbers of all lines, by a block. */
static __device__ void add_counts(int64_t lines, const struct zt_launch_counts &to) {
    __shared__ float part[LINE];
    float sum[2] = { 0, 0 };
    for (int64_t line = threadIdx.x; line < lines; line += LINE) {
        sum[0] += (float)to.counts[2 * line];
        sum[1] += (float)to.counts[2 * line + 1];
    }
    sum[0] = add_block<LINE>(sum[0], part);
    sum[1] = add_block<LINE>(sum[1], part);
    if (threadIdx.x == 0) {
        *to.correct = sum[0];
        if (to.counted)
            *to.counted = sum[1];
    }
}

static __global__ void correct_kernel(struct zt_launch_count c, struct zt_launch_tensor x,
                                      struct zt_launch_tensor target, struct zt_launch_tensor weight,
                                      struct zt_launch_counts to) {
    __shared__ struct found places[LINE];
    const int64_t lines = c.outer * c.inner, each = c.samples > 0 ? lines / c.samples : 0;
    for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
        const int64_t wanted = int_at(target.dtype, target.data, line);
        const struct found best =
            most_of(x, start_of(line, c.length, c.inner), c.length, c.inner, false, false, places);
        const bool counts_here = wanted != c.ignore && (!weight.data || get(weight, line / (each > 0 ? each : 1)) != 0);
        if (threadIdx.x == 0) {
            to.counts[2 * line] = counts_here && best.at == wanted;
            to.counts[2 * line + 1] = counts_here;
        }
    }
    if (is_last_block(to.arrived))
        add_counts(lines, to);
}

int zt_launch_count_correct(cudaStream_t stream, const struct zt_launch_count *c, struct zt_launch_tensor x,
                            struct zt_launch_tensor target, struct zt_launch_tensor weight,
                            const struct zt_launch_counts *to) {
    const unsigned blocks = blocks_for(c->outer * c->inner * BLOCK); /* a block a line, and one where there is none */
    correct_kernel<<<blocks, LINE, 0, stream>>>(*c, x, target, weight, *to);
    return cudaGetLastError();
}
