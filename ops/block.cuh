/* What kernels share whose blocks take a job each: a line, a row, a channel. */
#ifndef ZT_OPS_BLOCK_CUH
#define ZT_OPS_BLOCK_CUH

#include <stdint.h>

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

/* Blocks for so many jobs of a block each; kernels go on by grid strides. */
static inline unsigned job_blocks(int64_t jobs) {
    return (unsigned)(jobs < 65535 ? jobs : 65535);
}

#endif
