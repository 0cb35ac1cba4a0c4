/* ArgMax, ArgMin, CumSum, CumProd and TopK: kernels along one axis. */
#include "ops/reduce/launch_axis_slices.h"
#include "ops/reduce/extreme.cuh"

/* ---- ArgMax, ArgMin: a block a slice ---- */

static __global__ void extreme_kernel(struct zt_launch_extreme e, struct zt_launch_tensor x, int64_t *y) {
    __shared__ struct found places[SLICE_THREADS];
    for (int64_t slice = blockIdx.x; slice < e.outer * e.inner; slice += gridDim.x) {
        const struct found best = extreme_of(x, slice_of(e, slice), { e.least, e.last }, places);
        if (threadIdx.x == 0)
            y[slice] = best.at;
    }
}

/* Integers, whose digits a float does not hold: a thread a slice. */
static __global__ void extreme_int_kernel(struct zt_launch_extreme e, struct zt_launch_tensor x, int64_t *y) {
    EACH(slice, e.outer * e.inner) {
        const struct slice here = slice_of(e, slice);
        int64_t best = 0, at = -1;
        for (int64_t i = 0; i < e.length; i++) {
            const int64_t v = int_at(x.dtype, x.data, here.at(i));
            if (at < 0 || (e.least ? v < best : v > best) || (e.last && v == best)) {
                best = v;
                at = i;
            }
        }
        y[slice] = at;
    }
}

int zt_launch_extreme(cudaStream_t stream, const struct zt_launch_extreme *e, struct zt_launch_tensor x, int64_t *y) {
    const int64_t slices = e->outer * e->inner;
    if (slices == 0)
        return cudaSuccess;
    if (x.dtype == ZT_INT32 || x.dtype == ZT_INT64)
        extreme_int_kernel<<<blocks_for(slices), BLOCK, 0, stream>>>(*e, x, y);
    else
        extreme_kernel<<<job_blocks(slices), SLICE_THREADS, 0, stream>>>(*e, x, y);
    return cudaGetLastError();
}

/* ---- CumSum, CumProd: a thread a slice ---- */

template <class T> static __global__ void cumulate_kernel(struct zt_launch_cumulate c, const T *x, T *y) {
    using V = decltype(to_number(T{}) + 0ull); /* integers wrap */
    EACH(slice, c.outer * c.inner) {
        const struct slice here = slice_of(c, slice);
        V all = c.product ? 1 : 0;
        for (int64_t k = 0; k < c.length; k++) {
            const int64_t at = here.at(c.reverse ? c.length - 1 - k : k);
            const V v = (V)to_number(x[at]), next = c.product ? all * v : all + v;
            y[at] = of_number<T>(c.exclusive ? all : next);
            all = next;
        }
    }
}

int zt_launch_cumulate(cudaStream_t stream, const struct zt_launch_cumulate *c, struct zt_launch_tensor x,
                       struct zt_launch_tensor y) {
    const int64_t slices = c->outer * c->inner;
    WITH_NUMBER(x.dtype, slices,
                (cumulate_kernel<T><<<blocks_for(slices), BLOCK, 0, stream>>>(*c, (const T *)x.data, (T *)y.data)));
}

/* ---- TopK: a block takes a slice, and finds in each of k passes the best element behind the one before it ---- */

enum { TOP_K_THREADS = 256 };

template <class V> struct ranked {
    V value;
    int64_t at; /* -1: nothing */
};

/* Elements are totally ordered: NaN above all numbers, of equals the lower place first. */
template <class V> static __device__ bool comes_before(const ranked<V> &a, const ranked<V> &b, bool least) {
    if (a.at < 0 || b.at < 0)
        return b.at < 0 && a.at >= 0;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan)
        return least ? b_nan : a_nan;
    if (!a_nan && a.value != b.value)
        return least ? a.value < b.value : a.value > b.value;
    return a.at < b.at;
}

template <class T>
static __global__ void top_k_kernel(struct zt_launch_top_k t, const T *x, T *values, int64_t *places) {
    using V = decltype(to_number(T{}));
    __shared__ ranked<V> part[TOP_K_THREADS];
    for (int64_t slice = blockIdx.x; slice < t.outer * t.inner; slice += gridDim.x) {
        const struct slice from = slice_of(t, slice);
        const int64_t to = slice / t.inner * t.k * t.inner + slice % t.inner;
        ranked<V> last = { 0, -1 };
        for (int64_t pass = 0; pass < t.k; pass++) {
            ranked<V> best = { 0, -1 };
            for (int64_t i = threadIdx.x; i < t.length; i += TOP_K_THREADS) {
                const ranked<V> here = { to_number(x[from.at(i)]), i };
                if ((last.at < 0 || comes_before(last, here, t.least)) && comes_before(here, best, t.least))
                    best = here;
            }
            last = fold_block<TOP_K_THREADS>(best, part, [&](const ranked<V> &a, const ranked<V> &b) {
                return comes_before(b, a, t.least) ? b : a;
            });
            if (threadIdx.x == 0 && values)
                values[to + pass * t.inner] = x[from.at(last.at)];
            if (threadIdx.x == 0 && places)
                places[to + pass * t.inner] = last.at;
        }
    }
}

int zt_launch_top_k(cudaStream_t stream, const struct zt_launch_top_k *t, struct zt_launch_tensor x, void *values,
                    int64_t *places) {
    const int64_t slices = t->length > 0 && t->k > 0 ? t->outer * t->inner : 0;
    WITH_NUMBER(x.dtype, slices,
                (top_k_kernel<T>
                 <<<job_blocks(slices), TOP_K_THREADS, 0, stream>>>(*t, (const T *)x.data, (T *)values, places)));
}
