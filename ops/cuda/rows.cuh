/* A block and a line: what kernels that fold lines share. */
#ifndef ZT_OPS_CUDA_ROWS_CUH
#define ZT_OPS_CUDA_ROWS_CUH

#include "base/block.cuh"
#include "ops/cuda/launch_rows.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

static __device__ inline float get(const struct zt_launch_tensor &t, int64_t i) {
    return float_at(t.dtype, t.data, i);
}
static __device__ inline void put(const struct zt_launch_tensor &t, int64_t i, float value) {
    if (t.data)
        set_float(t.dtype, t.data, i, value);
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
static __device__ struct found first_block(struct found mine, bool least, bool last, struct found *part) {
    return fold_block<N>(
        mine, part, [&](const struct found &a, const struct found &b) { return beats(b, a, least, last) ? b : a; });
}

#endif
