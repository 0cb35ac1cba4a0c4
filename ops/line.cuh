/* A block and a line: what kernels that fold lines share. */
#ifndef ZT_OPS_LINE_CUH
#define ZT_OPS_LINE_CUH

#include "ops/launch_line.h"
#include "ops/types.cuh"

#include <math_constants.h>

static __device__ inline float get(const struct zt_launch_tensor &t, int64_t i) {
    return float_at(t.dtype, t.data, i);
}
static __device__ inline void put(const struct zt_launch_tensor &t, int64_t i, float value) {
    if (t.data)
        set_float(t.dtype, t.data, i, value);
}

/* Joins a value of each of N threads in a fixed tree; all get the result. `part` has N places. */
template <int N, class V, class Join> static __device__ V fold_block(V mine, V *part, Join join) {
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int half = N / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            part[threadIdx.x] = join(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    mine = part[0];
    __syncthreads();
    return mine;
}
template <int N, class V> static __device__ V add_block(V value, V *part) {
    return fold_block<N>(value, part, [](V a, V b) { return a + b; });
}

/* An element and its place, of which one is first: NaN before all, of equals the lower place (`last`: the higher). */
struct found {
    float value;
    int64_t at; /* -1: nothing yet */
};
static __device__ inline bool beats(const struct found &a, const struct found &b, bool least, bool last) {
    if (a.at < 0 || b.at < 0)
        return b.at < 0 && a.at >= 0;
    const bool a_odd = a.value != a.value, b_odd = b.value != b.value;
    if (a_odd != b_odd)
        return a_odd;
    if (!a_odd && a.value != b.value)
        return least ? a.value < b.value : a.value > b.value;
    return last ? a.at > b.at : a.at < b.at;
}
template <int N>
static __device__ struct found first_block(struct found mine, bool least, bool last, float *values, int64_t *places) {
    values[threadIdx.x] = mine.value;
    places[threadIdx.x] = mine.at;
    __syncthreads();
    for (int half = N / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) {
            struct found other = { values[threadIdx.x + half], places[threadIdx.x + half] };
            mine.value = values[threadIdx.x];
            mine.at = places[threadIdx.x];
            if (beats(other, mine, least, last)) {
                values[threadIdx.x] = other.value;
                places[threadIdx.x] = other.at;
            }
        }
        __syncthreads();
    }
    struct found best = { values[0], places[0] };
    __syncthreads();
    return best;
}

/* Blocks for so many jobs of a block each; kernels go on by grid strides. */
static inline unsigned job_blocks(int64_t jobs) {
    return (unsigned)(jobs < 65535 ? jobs : 65535);
}

#endif
