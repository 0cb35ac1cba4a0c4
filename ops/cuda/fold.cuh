/* Folds over any axes by blocks. A result's elements are cut into `parts`, which a block folds each; the last block to
 * be done with a part of a result (is_last_of) joins them. fp32; the order depends on the shape alone. */
#ifndef ZT_OPS_CUDA_FOLD_CUH
#define ZT_OPS_CUDA_FOLD_CUH

#include "ops/reduce/launch_reduce.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

enum { ACROSS = 32, ALONG = 16 }; /* a block of columns: results, and elements of each at a time */

/* ---- rules: where a fold starts, what an element is, how two are joined, what comes of it ---- */

struct fold_sum {
    static __device__ float start() {
        return 0;
    }
    static __device__ float element(float x) {
        return x;
    }
    static __device__ float join(float a, float b) {
        return a + b;
    }
    static __device__ float finish(float a, float) {
        return a;
    }
};
struct fold_mean : fold_sum {
    static __device__ float finish(float a, float count) {
        return a / count;
    }
};
struct fold_log_sum : fold_sum {
    static __device__ float finish(float a, float) {
        return logf(a);
    }
};
struct fold_l1 : fold_sum {
    static __device__ float element(float x) {
        return fabsf(x);
    }
};
struct fold_sum_square : fold_sum {
    static __device__ float element(float x) {
        return x * x;
    }
};
struct fold_l2 : fold_sum_square {
    static __device__ float finish(float a, float) {
        return sqrtf(a);
    }
};
struct fold_product : fold_sum {
    static __device__ float start() {
        return 1;
    }
    static __device__ float join(float a, float b) {
        return a * b;
    }
};
/* NaN wins. */
struct fold_max : fold_sum {
    static __device__ float start() {
        return -CUDART_INF_F;
    }
    static __device__ float join(float a, float b) {
        return a != a || a > b ? a : b;
    }
};
struct fold_min : fold_sum {
    static __device__ float start() {
        return CUDART_INF_F;
    }
    static __device__ float join(float a, float b) {
        return a != a || a < b ? a : b;
    }
};

/* ---- jobs of blocks ---- */

template <class Rule, class Y>
static __device__ void finish(const struct zt_launch_reduce &r, int64_t result, float value, Y *y) {
    value = Rule::finish(value, (float)r.over);
    y[result] = from_float<Y>(r.accumulate ? to_float(y[result]) + value : value);
}

static inline __host__ __device__ int64_t columns_of(const struct zt_launch_reduce &r) {
    return (r.kept + ACROSS - 1) / ACROSS;
}

/* A part of a column, one of ACROSS that a block has. */
struct column {
    int64_t at, count, part, parts; /* column of `count`, part of it */
    unsigned *arrived;              /* by those who have parts of these columns */
};

/* *value, in the first row of threads: what this block has of a column. It is kept in found [parts, count]; the last
 * block to come is told so, and *value is there what all parts give. */
template <class Rule, class V>
static __device__ bool join_parts(const struct column &c, V *found, V (*kept)[ACROSS], V *value) {
    if (c.parts == 1)
        return true;
    if (threadIdx.y == 0 && c.at < c.count)
        found[c.part * c.count + c.at] = *value;
    if (!is_last_of(c.arrived, (unsigned)c.parts))
        return false;
    V all = Rule::start();
    for (int64_t k = threadIdx.y; c.at < c.count && k < c.parts; k += ALONG)
        all = Rule::join(all, found[k * c.count + c.at]);
    *value = fold_columns<ALONG>(all, kept, Rule::join);
    return true;
}

/* Neighbouring results lie side by side: a block of ACROSS x ALONG threads folds ACROSS of them, thread (c, k) elements
 * k, k + ALONG, ... whose partial results are joined in order. Reads of a warp are neighbours. A block has jobs first,
 * first + step, ... of columns_of() * parts. */
template <class Rule, class T, class Y>
static __device__ void fold_columns_of(const struct zt_launch_reduce &r, int64_t first, int64_t step, const T *x, Y *y,
                                       float *partial) {
    __shared__ float kept[ALONG][ACROSS];
    const int64_t wide = columns_of(r);
    for (int64_t job = first; job < wide * r.parts; job += step) {
        const int64_t result = job % wide * ACROSS + threadIdx.x;
        const struct column c = { result, r.kept, job / wide, r.parts, &r.arrived[job % wide] };
        const struct span mine = part_of(r.over, r.parts, c.part);
        const int64_t from = result < r.kept ? walked(r.kept_axes, r.kept_dim, r.kept_step, result) : 0;
        float value = Rule::start();
        for (int64_t k = mine.first + threadIdx.y; result < r.kept && k < mine.end; k += ALONG)
            value =
                Rule::join(value, Rule::element(to_float(x[from + walked(r.over_axes, r.over_dim, r.over_step, k)])));
        value = fold_columns<ALONG>(value, kept, Rule::join);
        if (join_parts<Rule>(c, partial, kept, &value) && threadIdx.y == 0 && result < r.kept)
            finish<Rule>(r, result, value, y);
    }
}

/* A block folds one result; what its threads have is joined in a fixed tree. */
template <class Rule> static __device__ float join_block(float value, float *kept) {
    return fold_block<BLOCK>(value, kept, [](float a, float b) { return Rule::join(a, b); });
}

/* A block of BLOCK threads folds a part of a result: at most BLOCK parts, partial [kept, parts]. */
template <class Rule, class T, class Y>
static __device__ void fold_rows_of(const struct zt_launch_reduce &r, int64_t first, int64_t step, const T *x, Y *y,
                                    float *partial) {
    __shared__ float kept[BLOCK];
    for (int64_t job = first; job < r.kept * r.parts; job += step) {
        const int64_t result = job / r.parts, part = job % r.parts;
        const struct span mine = part_of(r.over, r.parts, part);
        const T *from = x + walked(r.kept_axes, r.kept_dim, r.kept_step, result);
        float value = Rule::start();
        for (int64_t k = mine.first + threadIdx.x; k < mine.end; k += BLOCK)
            value = Rule::join(value, Rule::element(to_float(from[walked(r.over_axes, r.over_dim, r.over_step, k)])));
        value = join_block<Rule>(value, kept);
        if (r.parts > 1) {
            if (threadIdx.x == 0)
                partial[job] = value;
            if (!is_last_of(&r.arrived[result], (unsigned)r.parts))
                continue;
            value =
                join_block<Rule>(threadIdx.x < r.parts ? partial[result * r.parts + threadIdx.x] : Rule::start(), kept);
        }
        if (threadIdx.x == 0)
            finish<Rule>(r, result, value, y);
    }
}

/* Whether neighbouring results lie side by side. */
static inline bool side_by_side(const struct zt_launch_reduce *r) {
    return r->kept_axes > 0 && r->kept_step[r->kept_axes - 1] == 1 && r->kept_dim[r->kept_axes - 1] >= ACROSS / 4;
}

#endif
