/* Reductions over any axes by blocks. The elements of a result are divided into `parts`, each of which one block
 * reduces; the last block that finishes a part of a result (is_last_of) combines the parts. Arithmetic is in fp32. */
#ifndef ZT_OPS_REDUCE_FOLD_CUH
#define ZT_OPS_REDUCE_FOLD_CUH

#include "ops/reduce/launch_reduce.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

enum { ACROSS = 32, ALONG = 16 }; /* a block of columns: results, and elements of each that it reads at a time */

/* ---- rules: the start value, the value of an element, how two values are combined, the result ---- */

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

/* ---- the work of a block ---- */

template <class Rule, class Y>
static __device__ void finish(const struct zt_launch_reduce &r, int64_t result, float value, Y *y) {
    value = Rule::finish(value, (float)r.reduced);
    y[result] = from_float<Y>(r.accumulate ? to_float(y[result]) + value : value);
}

static inline __host__ __device__ int64_t columns_of(const struct zt_launch_reduce &r) {
    return (r.results + ACROSS - 1) / ACROSS;
}

/* A part of a column. A block has ACROSS adjacent columns. */
struct column {
    int64_t at, count, part, parts; /* column of `count`, part of it */
    unsigned *arrived;              /* counter of the blocks that have parts of these columns */
};

/* Combines the parts of a column. On entry *value of the first row of threads is the block's part. Returns true in the
 * last block of the column, where *value becomes the result. found [parts, count] is workspace. */
template <class Rule, class V>
static __device__ bool join_parts(const struct column &c, V *found, V (*shared)[ACROSS], V *value) {
    if (c.parts == 1)
        return true;
    if (threadIdx.y == 0 && c.at < c.count)
        found[c.part * c.count + c.at] = *value;
    if (!is_last_of(c.arrived, (unsigned)c.parts))
        return false;
    V all = Rule::start();
    for (int64_t k = threadIdx.y; c.at < c.count && k < c.parts; k += ALONG)
        all = Rule::join(all, found[k * c.count + c.at]);
    *value = fold_columns<ALONG>(all, shared, Rule::join);
    return true;
}

/* For results that are adjacent in x: a block of ACROSS x ALONG threads reduces ACROSS of them. Thread (c, k) reads
 * elements k, k + ALONG, ... of result c; the partial results are combined in order. The threads of a warp read
 * adjacent elements. The block does jobs first, first + step, ... of columns_of() * parts. */
template <class Rule, class T, class Y>
static __device__ void fold_columns_of(const struct zt_launch_reduce &r, int64_t first, int64_t step, const T *x, Y *y,
                                       float *partial) {
    __shared__ float shared[ALONG][ACROSS];
    const int64_t wide = columns_of(r);
    for (int64_t job = first; job < wide * r.parts; job += step) {
        const int64_t result = job % wide * ACROSS + threadIdx.x;
        const struct column c = { result, r.results, job / wide, r.parts, &r.arrived[job % wide] };
        const struct span mine = part_of(r.reduced, r.parts, c.part);
        const int64_t from = result < r.results ? walked(r.result_axes, r.result_dim, r.result_step, result) : 0;
        float value = Rule::start();
        for (int64_t k = mine.first + threadIdx.y; result < r.results && k < mine.end; k += ALONG)
            value = Rule::join(
                value, Rule::element(to_float(x[from + walked(r.reduced_axes, r.reduced_dim, r.reduced_step, k)])));
        value = fold_columns<ALONG>(value, shared, Rule::join);
        if (join_parts<Rule>(c, partial, shared, &value) && threadIdx.y == 0 && result < r.results)
            finish<Rule>(r, result, value, y);
    }
}

/* Combines the values of the threads of a block in a fixed tree. */
template <class Rule> static __device__ float join_block(float value, float *shared) {
    return fold_block<BLOCK>(value, shared, [](float a, float b) { return Rule::join(a, b); });
}

/* A block of BLOCK threads reduces one part of a result at a time: at most BLOCK parts, partial [results, parts]. */
template <class Rule, class T, class Y>
static __device__ void fold_rows_of(const struct zt_launch_reduce &r, int64_t first, int64_t step, const T *x, Y *y,
                                    float *partial) {
    __shared__ float shared[BLOCK];
    for (int64_t job = first; job < r.results * r.parts; job += step) {
        const int64_t result = job / r.parts, part = job % r.parts;
        const struct span mine = part_of(r.reduced, r.parts, part);
        const T *from = x + walked(r.result_axes, r.result_dim, r.result_step, result);
        float value = Rule::start();
        for (int64_t k = mine.first + threadIdx.x; k < mine.end; k += BLOCK)
            value = Rule::join(value,
                               Rule::element(to_float(from[walked(r.reduced_axes, r.reduced_dim, r.reduced_step, k)])));
        value = join_block<Rule>(value, shared);
        if (r.parts > 1) {
            if (threadIdx.x == 0)
                partial[job] = value;
            if (!is_last_of(&r.arrived[result], (unsigned)r.parts))
                continue;
            value = join_block<Rule>(threadIdx.x < r.parts ? partial[result * r.parts + threadIdx.x] : Rule::start(),
                                     shared);
        }
        if (threadIdx.x == 0)
            finish<Rule>(r, result, value, y);
    }
}

/* Whether adjacent results are adjacent in x too. */
static inline bool side_by_side(const struct zt_launch_reduce *r) {
    return r->result_axes > 0 && r->result_step[r->result_axes - 1] == 1 &&
           r->result_dim[r->result_axes - 1] >= ACROSS / 4;
}

#endif
