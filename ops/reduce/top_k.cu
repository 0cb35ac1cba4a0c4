/* TopK (ops/reduce/top_k.c): a block takes a line, and finds in each of k passes the best element behind the one before
 * it. */
#include "ops/cuda/rows.cuh"

enum { LINE = 256 };

template <class V> struct ranked {
    V value;
    int64_t at; /* -1: nothing */
};

/* Elements are totally ordered: NaN above all numbers, of equals the lower place first. */
template <class V> static __device__ bool comes_before(const ranked<V> &a, const ranked<V> &b, bool least) {
    if (a.at < 0 || b.at < 0)
        return b.at < 0 && a.at >= 0;
    const bool a_odd = a.value != a.value, b_odd = b.value != b.value;
    if (a_odd != b_odd)
        return least ? b_odd : a_odd;
    if (!a_odd && a.value != b.value)
        return least ? a.value < b.value : a.value > b.value;
    return a.at < b.at;
}

template <class T>
static __global__ void top_k_kernel(struct zt_launch_top_k t, const T *x, T *values, int64_t *places) {
    using V = decltype(to_number(T{}));
    __shared__ ranked<V> part[LINE];
    for (int64_t line = blockIdx.x; line < t.outer * t.inner; line += gridDim.x) {
        const int64_t from = line / t.inner * t.length * t.inner + line % t.inner;
        const int64_t to = line / t.inner * t.k * t.inner + line % t.inner;
        ranked<V> last = { 0, -1 };
        for (int64_t pass = 0; pass < t.k; pass++) {
            ranked<V> best = { 0, -1 };
            for (int64_t i = threadIdx.x; i < t.length; i += LINE) {
                const ranked<V> here = { to_number(x[from + i * t.inner]), i };
                if ((last.at < 0 || comes_before(last, here, t.least)) && comes_before(here, best, t.least))
                    best = here;
            }
            last = fold_block<LINE>(best, part, [&](const ranked<V> &a, const ranked<V> &b) {
                return comes_before(b, a, t.least) ? b : a;
            });
            if (threadIdx.x == 0 && values)
                values[to + pass * t.inner] = x[from + last.at * t.inner];
            if (threadIdx.x == 0 && places)
                places[to + pass * t.inner] = last.at;
        }
    }
}

int zt_launch_top_k(cudaStream_t stream, const struct zt_launch_top_k *t, struct zt_launch_tensor x, void *values,
                    int64_t *places) {
    const int64_t lines = t->length > 0 && t->k > 0 ? t->outer * t->inner : 0;
    WITH_NUMBER(x.dtype, lines,
                (top_k_kernel<T><<<job_blocks(lines), LINE, 0, stream>>>(*t, (const T *)x.data, (T *)values, places)));
}
