/* Reductions over any axes (fold.cuh). */
#include "ops/reduce/fold.cuh"

/* ---- kernels ---- */

template <class Rule, class T, class Y>
static __global__ void columns_kernel(struct zt_launch_reduce r, const T *x, Y *y, float *partial) {
    fold_columns_of<Rule>(r, blockIdx.x, gridDim.x, x, y, partial);
}

template <class Rule, class T, class Y>
static __global__ void rows_kernel(struct zt_launch_reduce r, const T *x, Y *y, float *partial) {
    fold_rows_of<Rule>(r, blockIdx.x, gridDim.x, x, y, partial);
}

/* Two passes: the first finds the maximum, which is subtracted before exp. An infinite maximum is not subtracted. */
template <class T> static __global__ void log_sum_exp_kernel(struct zt_launch_reduce r, const T *x, T *y) {
    __shared__ float shared[BLOCK];
    for (int64_t result = blockIdx.x; result < r.results; result += gridDim.x) {
        const T *from = x + walked(r.result_axes, r.result_dim, r.result_step, result);
        float most = -CUDART_INF_F, sum = 0;
        for (int64_t k = threadIdx.x; k < r.reduced; k += BLOCK)
            most = fold_max::join(most, to_float(from[walked(r.reduced_axes, r.reduced_dim, r.reduced_step, k)]));
        most = join_block<fold_max>(most, shared);
        most = most == CUDART_INF_F || most == -CUDART_INF_F ? 0 : most;
        for (int64_t k = threadIdx.x; k < r.reduced; k += BLOCK)
            sum += expf(to_float(from[walked(r.reduced_axes, r.reduced_dim, r.reduced_step, k)]) - most);
        sum = join_block<fold_sum>(sum, shared);
        if (threadIdx.x == 0)
            y[result] = from_float<T>(logf(sum) + most);
    }
}

/* ---- launching ---- */

int64_t zt_launch_reduce_parts(const struct zt_launch_reduce *r) {
    const int64_t blocks = side_by_side(r) ? columns_of(*r) : r->results;
    const int64_t each = side_by_side(r) ? 32 * ALONG : 16 * BLOCK; /* elements that occupy a block */
    int64_t parts = r->reduced / each;
    const int64_t most = blocks > 0 ? BLOCK / blocks : 1; /* all blocks run at once */
    parts = parts < most ? parts : most;
    return parts < 1 || r->fold == ZT_FOLD_LOG_SUM_EXP ? 1 : parts;
}

template <class Rule, class T, class Y>
static void queue(cudaStream_t stream, const struct zt_launch_reduce *r, const T *x, Y *y, float *partial) {
    const bool columns = side_by_side(r);
    const unsigned blocks = job_blocks((columns ? columns_of(*r) : r->results) * r->parts);
    if (columns)
        columns_kernel<Rule, T, Y><<<blocks, dim3(ACROSS, ALONG), 0, stream>>>(*r, x, y, partial);
    else
        rows_kernel<Rule, T, Y><<<blocks, BLOCK, 0, stream>>>(*r, x, y, partial);
}

template <class Rule>
static int launch(cudaStream_t stream, const struct zt_launch_reduce *r, struct zt_launch_tensor x,
                  struct zt_launch_tensor y, float *partial) {
    WITH_TYPE(x.dtype, r->results, (queue<Rule>(stream, r, (const T *)x.data, (T *)y.data, partial)));
}

int zt_launch_reduce(cudaStream_t stream, const struct zt_launch_reduce *r, struct zt_launch_tensor x,
                     struct zt_launch_tensor y, float *partial) {
    if (x.dtype != y.dtype) {
        WITH_TYPE(x.dtype, r->results, (queue<fold_sum>(stream, r, (const T *)x.data, (float *)y.data, partial)));
    }
    switch (r->fold) {
    case ZT_FOLD_SUM:
        return launch<fold_sum>(stream, r, x, y, partial);
    case ZT_FOLD_MEAN:
        return launch<fold_mean>(stream, r, x, y, partial);
    case ZT_FOLD_LOG_SUM:
        return launch<fold_log_sum>(stream, r, x, y, partial);
    case ZT_FOLD_L1:
        return launch<fold_l1>(stream, r, x, y, partial);
    case ZT_FOLD_L2:
        return launch<fold_l2>(stream, r, x, y, partial);
    case ZT_FOLD_SUM_SQUARE:
        return launch<fold_sum_square>(stream, r, x, y, partial);
    case ZT_FOLD_PRODUCT:
        return launch<fold_product>(stream, r, x, y, partial);
    case ZT_FOLD_MAX:
        return launch<fold_max>(stream, r, x, y, partial);
    case ZT_FOLD_MIN:
        return launch<fold_min>(stream, r, x, y, partial);
    default:
        WITH_TYPE(
            x.dtype, r->results,
            (log_sum_exp_kernel<T><<<job_blocks(r->results), BLOCK, 0, stream>>>(*r, (const T *)x.data, (T *)y.data)));
    }
}

int zt_launch_sum(cudaStream_t stream, enum zt_dtype dtype, const struct zt_launch_sum *s, const void *x, void *y,
                  bool accumulate) {
    struct zt_launch_reduce r = {};
    r.fold = ZT_FOLD_SUM;
    const int64_t dim[2] = { s->outer, s->inner }, step[2] = { s->length * s->inner, 1 };
    for (int k = 0; k < 2; k++)
        if (dim[k] != 1) {
            r.result_dim[r.result_axes] = dim[k];
            r.result_step[r.result_axes++] = step[k];
        }
    r.reduced_axes = 1;
    r.reduced_dim[0] = s->length;
    r.reduced_step[0] = s->inner;
    r.results = s->outer * s->inner;
    r.reduced = s->length;
    r.parts = 1;
    r.accumulate = accumulate;
    return zt_launch_reduce(stream, &r, { dtype, (void *)x }, { dtype, y }, NULL);
}
