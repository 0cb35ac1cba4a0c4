/* The largest or smallest element of a slice and its index, found by a block. */
#ifndef ZT_OPS_REDUCE_EXTREME_CUH
#define ZT_OPS_REDUCE_EXTREME_CUH

#include "ops/cuda/tensor.cuh"

struct found {
    float value;
    int64_t at; /* -1: no element yet */
};
/* The element that a block searches: the smallest, else the largest; of equal elements the last, else the first. */
struct extreme {
    bool least, last;
};

/* Whether a comes before b; NaN comes before every number. */
static __device__ inline bool beats(const struct found &a, const struct found &b, struct extreme wanted) {
    if (a.at < 0 || b.at < 0)
        return b.at < 0 && a.at >= 0;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan)
        return a_nan;
    if (!a_nan && a.value != b.value)
        return wanted.least ? a.value < b.value : a.value > b.value;
    return wanted.last ? a.at > b.at : a.at < b.at;
}

/* By a block of SLICE_THREADS threads, all of which get the result; `part` is shared memory of as many places. */
static __device__ inline struct found extreme_of(const struct zt_launch_tensor &x, const struct slice &slice,
                                                 struct extreme wanted, struct found *part) {
    struct found best = { 0, -1 };
    for (int64_t i = threadIdx.x; i < slice.length; i += SLICE_THREADS) {
        const struct found here = { get(x, slice.at(i)), i };
        best = beats(here, best, wanted) ? here : best;
    }
    return fold_block<SLICE_THREADS>(
        best, part, [&](const struct found &a, const struct found &b) { return beats(b, a, wanted) ? b : a; });
}

#endif
