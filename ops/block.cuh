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

/* Joins a value of each row of N of threads with the others of its column, in the order of the rows; the first row gets
 * the results. `part` has N rows of W places. */
template <int N, class V, int W, class Join> static __device__ V fold_columns(V mine, V (*part)[W], Join join) {
    part[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    for (int k = 1; threadIdx.y == 0 && k < N; k++)
        mine = join(mine, part[k][threadIdx.x]);
    __syncthreads();
    return mine;
}
template <int N, class V, int W> static __device__ V add_columns(V value, V (*part)[W]) {
    return fold_columns<N>(value, part, [](V a, V b) { return a + b; });
}

/* Part `part` of `count` things that are cut into `parts`. */
struct span {
    int64_t first, end;
};
static __device__ inline struct span part_of(int64_t count, int64_t parts, int64_t part) {
    const int64_t each = (count + parts - 1) / parts, first = part * each < count ? part * each : count;
    return { first, first + each < count ? first + each : count };
}

/* Blocks for so many jobs of a block each; kernels go on by grid strides. */
static inline unsigned job_blocks(int64_t jobs) {
    return (unsigned)(jobs < 65535 ? jobs : 65535);
}

#endif
