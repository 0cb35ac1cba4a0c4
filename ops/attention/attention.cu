/* The rows of attention between its matrix products (formulas: ops/attention/attention.c). A block of one warp takes a
 * row of scores: one query of one head. Everything is in fp32. */
#include "base/block.cuh"
#include "ops/attention/launch_attention.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

/* A row of scores: which head and query it belongs to, and the keys [from, to) that it may see. */
struct row {
    int64_t head, query, from, to, mask; /* mask: offset of its first key's */
};

/* As zt_attention_visible (ops/attention/attention.h) says. */
static __device__ struct row row_of(const struct zt_launch_attention &a, int64_t row) {
    struct row l;
    int64_t end = a.keys, offset = 0;
    l.head = (a.first + row / a.queries) * a.group + a.member;
    l.query = row % a.queries;
    l.mask = a.batch * a.mask_step[0] + l.head * a.mask_step[1] + l.query * a.mask_step[2];
    if (a.nonpad) {
        end = most(0, least(end, a.nonpad[a.batch]));
        offset = least(most(a.nonpad[a.batch], INT64_MIN / 4) - a.queries, a.keys);
    }
    l.from = a.left >= 0 ? most(0, l.query + offset - least(a.left, a.keys + a.queries)) : 0;
    l.to = least(end, a.mask_length);
    if (a.causal)
        l.to = least(l.to, l.query + offset + 1);
    if (a.right >= 0)
        l.to = least(l.to, l.query + offset + least(a.right, a.keys) + 1);
    l.to = most(l.to, 0);
    l.from = least(l.from, l.to);
    return l;
}

static __device__ float capped(const struct zt_launch_attention &a, float s) {
    s *= a.scale;
    return a.softcap > 0 ? a.softcap * tanhf(s / a.softcap) : s;
}

static __device__ float bias(const struct zt_launch_attention &a, const struct row &l, int64_t key) {
    int64_t at = l.mask + key * a.mask_step[3];
    if (!a.mask)
        return 0;
    if (a.mask_dtype == ZT_BOOL)
        return ((const uint8_t *)a.mask)[at] ? 0 : -CUDART_INF_F;
    return float_at(a.mask_dtype, a.mask, at);
}

/* NaN wins. */
static __device__ float larger(float a, float b) {
    return a != a || a > b ? a : b;
}

static __device__ float largest_of(float value, float *part) {
    return fold_block<WARP>(value, part, [](float a, float b) { return larger(a, b); });
}

/* p = exp(x - most) * factor; 0 everywhere where all keys are masked. */
struct softmax {
    float most, factor;
};

static __device__ struct softmax softmax_of(const struct zt_launch_attention &a, const struct row &l, const float *s,
                                            float *part) {
    struct softmax x = { -CUDART_INF_F, 0 };
    float sum = 0;
    for (int64_t n = l.from + threadIdx.x; n < l.to; n += WARP)
        x.most = larger(x.most, capped(a, s[n]) + bias(a, l, n));
    x.most = largest_of(x.most, part);
    for (int64_t n = l.from + threadIdx.x; x.most != -CUDART_INF_F && n < l.to; n += WARP)
        sum += expf(capped(a, s[n]) + bias(a, l, n) - x.most);
    sum = add_block<WARP>(sum, part);
    if (sum != 0)
        x.factor = 1 / sum;
    else
        x.most = 0;
    return x;
}

/* The saved statistics of the row. */
static __device__ float *statistics_of(const struct zt_launch_attention &a, const struct row &l) {
    return a.statistics ? a.statistics + (a.batch * a.all_heads + l.head) * 2 * a.queries + l.query : NULL;
}

static __device__ float weight(const struct zt_launch_attention &a, const struct row &l, const struct softmax &x,
                               const float *s, int64_t n) {
    bool seen = n >= l.from && n < l.to && x.factor != 0;
    return seen ? expf(capped(a, s[n]) + bias(a, l, n) - x.most) * x.factor : 0;
}

/* ---- forward: p of s, which may be in its place ---- */

template <class T> static __global__ void attention_kernel(struct zt_launch_attention a, const float *scores, T *p) {
    __shared__ float part[WARP];
    for (int64_t row = blockIdx.x; row < a.heads * a.queries; row += gridDim.x) {
        struct row l = row_of(a, row);
        const float *s = scores + row * a.keys;
        struct softmax x = softmax_of(a, l, s, part);
        for (int64_t n = threadIdx.x; n < a.keys; n += WARP)
            p[row * a.keys + n] = from_float<T>(weight(a, l, x, s, n));
        float *saved = statistics_of(a, l);
        if (saved && threadIdx.x == 0) {
            saved[0] = x.most;
            saved[a.queries] = x.factor;
        }
    }
}

/* ---- backward: p and ds of s and dp, which may be in their places ---- */

template <class T>
static __global__ void attention_grad_kernel(struct zt_launch_attention a, struct zt_launch_attention_grad g) {
    T *p = (T *)g.p, *ds = (T *)g.ds, *dmask = (T *)g.dmask;
    __shared__ float part[WARP];
    for (int64_t row = blockIdx.x; row < a.heads * a.queries; row += gridDim.x) {
        struct row l = row_of(a, row);
        const float *s = g.scores + row * a.keys, *d = g.dp + row * a.keys;
        const float *saved = statistics_of(a, l);
        struct softmax x = saved ? softmax{ saved[0], saved[a.queries] } : softmax_of(a, l, s, part);
        float dot = 0;
        for (int64_t n = l.from + threadIdx.x; n < l.to; n += WARP)
            dot += weight(a, l, x, s, n) * d[n];
        dot = add_block<WARP>(dot, part);
        T *mask = dmask ? dmask + ((a.batch * a.all_heads + l.head) * a.queries + l.query) * a.mask_length : NULL;
        for (int64_t n = threadIdx.x; n < a.keys; n += WARP) {
            float w = weight(a, l, x, s, n), c = capped(a, s[n]), dx = w != 0 ? w * (d[n] - dot) : 0;
            if (mask && n < a.mask_length)
                mask[n] = from_float<T>(dx);
            if (a.softcap > 0)
                dx *= 1 - c / a.softcap * (c / a.softcap);
            p[row * a.keys + n] = from_float<T>(w);
            ds[row * a.keys + n] = from_float<T>(dx * a.scale);
        }
    }
}

int zt_launch_attention(cudaStream_t stream, const struct zt_launch_attention *a, const float *scores, void *p) {
    WITH_TYPE(a->dtype, a->heads * a->queries,
              (attention_kernel<T><<<job_blocks(a->heads * a->queries), WARP, 0, stream>>>(*a, scores, (T *)p)));
}

int zt_launch_attention_grad(cudaStream_t stream, const struct zt_launch_attention *a,
                             const struct zt_launch_attention_grad *g) {
    WITH_TYPE(a->dtype, a->heads * a->queries,
              (attention_grad_kernel<T><<<job_blocks(a->heads * a->queries), WARP, 0, stream>>>(*a, *g)));
}

/* ---- saved statistics and cuDNN's logarithm of the sum ---- */

static __device__ int64_t statistics_at(const struct zt_launch_softmax_rows &r, int64_t i) {
    return i / r.queries * 2 * r.queries + i % r.queries;
}

static __global__ void statistics_of_lse_kernel(struct zt_launch_softmax_rows r, const float *lse, float *saved) {
    EACH(i, r.rows * r.queries) {
        saved[statistics_at(r, i)] = lse[i];
        saved[statistics_at(r, i) + r.queries] = 1;
    }
}

static __global__ void lse_of_statistics_kernel(struct zt_launch_softmax_rows r, const float *saved, float *lse) {
    EACH(i, r.rows * r.queries) {
        lse[i] = saved[statistics_at(r, i)] - logf(saved[statistics_at(r, i) + r.queries]);
    }
}

int zt_launch_statistics_of_lse(cudaStream_t stream, const struct zt_launch_softmax_rows *rows, const float *lse,
                                float *saved) {
    statistics_of_lse_kernel<<<blocks_for(rows->rows * rows->queries), BLOCK, 0, stream>>>(*rows, lse, saved);
    return cudaGetLastError();
}

int zt_launch_lse_of_statistics(cudaStream_t stream, const struct zt_launch_softmax_rows *rows, const float *saved,
                                float *lse) {
    lse_of_statistics_kernel<<<blocks_for(rows->rows * rows->queries), BLOCK, 0, stream>>>(*rows, saved, lse);
    return cudaGetLastError();
}
