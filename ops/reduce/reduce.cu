/* Folds over any axes. fp32; the order depends on the shape alone. A result's elements are cut into `parts`, which
 * blocks fold each; where there is more than one, a second kernel joins them in order. */
#include "base/block.cuh"
#include "ops/cuda/launch.h"
#include "ops/reduce/launch_reduce.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

enum { ACROSS = 32, ALONG = 16 }; /* a block of the first kernel: results, and elements of each at a time */

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

/* ---- kernels ---- */

template <class Rule, class Y>
static __device__ void finish(const struct zt_launch_reduce &r, int64_t result, float value, Y *y) {
    value = Rule::finish(value, (float)r.over);
    y[result] = from_float<Y>(r.accumulate ? to_float(y[result]) + value : value);
}

template <class Rule, class Y>
static __device__ void give(const struct zt_launch_reduce &r, int64_t result, int64_t part, float value, Y *y,
                            float *partial) {
    if (r.parts > 1) {
        partial[result * r.parts + part] = value;
        return;
    }
    finish<Rule>(r, result, value, y);
}

/* Neighbouring results lie side by side: a block folds ACROSS of them, thread (c, k) elements k, k + ALONG, ... whose
 * partial results are joined in order. Reads of a warp are neighbours. */
template <class Rule, class T, class Y>
static __global__ void columns_kernel(struct zt_launch_reduce r, const T *x, Y *y, float *partial) {
    __shared__ float kept[ALONG][ACROSS];
    int64_t wide = (r.kept + ACROSS - 1) / ACROSS;
    for (int64_t job = blockIdx.x; job < wide * r.parts; job += gridDim.x) {
        int64_t result = job % wide * ACROSS + threadIdx.x, part = job / wide;
        const struct span mine = part_of(r.over, r.parts, part);
        int64_t from = result < r.kept ? walked(r.kept_axes, r.kept_dim, r.kept_step, result) : 0;
        float value = Rule::start();
        for (int64_t k = mine.first + threadIdx.y; result < r.kept && k < mine.end; k += ALONG)
            value =
                Rule::join(value, Rule::element(to_float(x[from + walked(r.over_axes, r.over_dim, r.over_step, k)])));
        value = fold_columns<ALONG>(value, kept, Rule::join);
        if (threadIdx.y == 0 && result < r.kept)
            give<Rule>(r, result, part, value, y, partial);
    }
}

/* A block folds one result; what its threads have is joined in a fixed tree. */
template <class Rule> static __device__ float join_block(float value, float *kept) {
    return fold_block<BLOCK>(value, kept, [](float a, float b) { return Rule::join(a, b); });
}

template <class Rule, class T, class Y>
static __global__ void rows_kernel(struct zt_launch_reduce r, const T *x, Y *y, float *partial) {
    __shared__ float kept[BLOCK];
    for (int64_t job = blockIdx.x; job < r.kept * r.parts; job += gridDim.x) {
        int64_t result = job / r.parts, part = job % r.parts;
        const struct span mine = part_of(r.over, r.parts, part);
        const T *from = x + walked(r.kept_axes, r.kept_dim, r.kept_step, result);
        float value = Rule::start();
        for (int64_t k = mine.first + threadIdx.x; k < mine.end; k += BLOCK)
            value = Rule::join(value, Rule::element(to_float(from[walked(r.over_axes, r.over_dim, r.over_step, k)])));
        value = join_block<Rule>(value, kept);
        if (threadIdx.x == 0)
            give<Rule>(r, result, part, value, y, partial);
    }
}

template <class Rule, class Y>
static __global__ void join_kernel(struct zt_launch_reduce r, const float *partial, Y *y) {
    EACH(i, r.kept) {
        float value = partial[i * r.parts];
        for (int64_t k = 1; k < r.parts; k++)
            value = Rule::join(value, partial[i * r.parts + k]);
        finish<Rule>(r, i, value, y);
    }
}

/* Two passes: the maximum is taken off first. All -inf, or an inf that must stay one, is not. */
template <class T> static __global__ void log_sum_exp_kernel(struct zt_launch_reduce r, const T *x, T *y) {
    __shared__ float kept[BLOCK];
    for (int64_t result = blockIdx.x; result < r.kept; result += gridDim.x) {
        const T *from = x + walked(r.kept_axes, r.kept_dim, r.kept_step, result);
        float most = -CUDART_INF_F, sum = 0;
        for (int64_t k = threadIdx.x; k < r.over; k += BLOCK)
            most = fold_max::join(most, to_float(from[walked(r.over_axes, r.over_dim, r.over_step, k)]));
        most = join_block<fold_max>(most, kept);
        most = most == CUDART_INF_F || most == -CUDART_INF_F ? 0 : most;
        for (int64_t k = threadIdx.x; k < r.over; k += BLOCK)
            sum += expf(to_float(from[walked(r.over_axes, r.over_dim, r.over_step, k)]) - most);
        sum = join_block<fold_sum>(sum, kept);
        if (threadIdx.x == 0)
            y[result] = from_float<T>(logf(sum) + most);
    }
}

/* ---- launching ---- */

static bool side_by_side(const struct zt_launch_reduce *r) {
    return r->kept_axes > 0 && r->kept_step[r->kept_axes - 1] == 1 && r->kept_dim[r->kept_axes - 1] >= ACROSS / 4;
}

int64_t zt_launch_reduce_parts(const struct zt_launch_reduce *r) {
    const int64_t blocks = side_by_side(r) ? (r->kept + ACROSS - 1) / ACROSS : r->kept;
    const int64_t each = side_by_side(r) ? 32 * ALONG : 16 * BLOCK; /* elements that are worth a block */
    int64_t parts = r->over / each;
    const int64_t most = blocks > 0 ? 256 / blocks : 1;
    parts = parts < most ? parts : most;
    return parts < 1 || r->fold == ZT_FOLD_LOG_SUM_EXP ? 1 : parts;
}

template <class Rule, class T, class Y>
static void queue(cudaStream_t stream, const struct zt_launch_reduce *r, const T *x, Y *y, float *partial) {
    const bool columns = side_by_side(r);
    const unsigned blocks = job_blocks((columns ? (r->kept + ACROSS - 1) / ACROSS : r->kept) * r->parts);
    if (columns)
        columns_kernel<Rule, T, Y><<<blocks, dim3(ACROSS, ALONG), 0, stream>>>(*r, x, y, partial);
    else
        rows_kernel<Rule, T, Y><<<blocks, BLOCK, 0, stream>>>(*r, x, y, partial);
    if (r->parts > 1)
        join_kernel<Rule, Y><<<blocks_for(r->kept), BLOCK, 0, stream>>>(*r, partial, y);
}

template <class Rule>
static int launch(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_reduce *r, const void *x, void *y,
                  float *partial) {
    WITH_TYPE(dtype, r->kept, (queue<Rule>(stream, r, (const T *)x, (T *)y, partial)));
}

int zt_launch_reduce(cudaStream_t stream, enum zt_dtype dtype, enum zt_dtype y_dtype, const struct zt_launch_reduce *r,
                     const void *x, void *y, float *partial) {
    if (dtype != y_dtype) {
        WITH_TYPE(dtype, r->kept, (queue<fold_sum>(stream, r, (const T *)x, (float *)y, partial)));
    }
    switch (r->fold) {
    case ZT_FOLD_SUM:
        return launch<fold_sum>(stream, dtype, r, x, y, partial);
    case ZT_FOLD_MEAN:
        return launch<fold_mean>(stream, dtype, r, x, y, partial);
    case ZT_FOLD_LOG_SUM:
        return launch<fold_log_sum>(stream, dtype, r, x, y, partial);
    case ZT_FOLD_L1:
        return launch<fold_l1>(stream, dtype, r, x, y, partial);
    case ZT_FOLD_L2:
        return launch<fold_l2>(stream, dtype, r, x, y, partial);
    case ZT_FOLD_SUM_SQUARE:
        return launch<fold_sum_square>(stream, dtype, r, x, y, partial);
    case ZT_FOLD_PRODUCT:
        return launch<fold_product>(stream, dtype, r, x, y, partial);
    case ZT_FOLD_MAX:
        return launch<fold_max>(stream, dtype, r, x, y, partial);
    case ZT_FOLD_MIN:
        return launch<fold_min>(stream, dtype, r, x, y, partial);
    default:
        WITH_TYPE(dtype, r->kept,
                  (log_sum_exp_kernel<T><<<job_blocks(r->kept), BLOCK, 0, stream>>>(*r, (const T *)x, (T *)y)));
    }
}

int zt_launch_sum(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_sum *s, const void *x, void *y,
                  bool accumulate) {
    struct zt_launch_reduce r = {};
    r.fold = ZT_FOLD_SUM;
    const int64_t dim[2] = { s->outer, s->inner }, step[2] = { s->length * s->inner, 1 };
    for (int k = 0; k < 2; k++)
        if (dim[k] != 1) {
            r.kept_dim[r.kept_axes] = dim[k];
            r.kept_step[r.kept_axes++] = step[k];
        }
    r.over_axes = 1;
    r.over_dim[0] = s->length;
    r.over_step[0] = s->inner;
    r.kept = s->outer * s->inner;
    r.over = s->length;
    r.parts = 1;
    r.accumulate = accumulate;
    return zt_launch_reduce(stream, dtype, dtype, &r, x, y, NULL);
}
