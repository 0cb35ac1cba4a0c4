/* Work division of CUDA kernels: one thread per element, or one block per item (a row or a channel) whose threads
 * combine their partial results. */
#ifndef ZT_BASE_BLOCK_CUH
#define ZT_BASE_BLOCK_CUH

#include <stdint.h>

/* ---- one thread per element ---- */

enum { BLOCK = 256 };

/* Returns the number of blocks for `count` elements, limited to what fills a large GPU: kernels loop with EACH. */
static inline unsigned blocks_for(int64_t count) {
    int64_t blocks = (count + BLOCK - 1) / BLOCK, most = 132 * 16;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

#define EACH(i, count)                                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (int64_t)gridDim.x * blockDim.x)

/* The unit of one load or store: at most 16 bytes, aligned to its size. */
template <class T, int N = 16 / sizeof(T)> struct alignas(sizeof(T) * N) pack { T at[N]; };

/* ---- one block per item ---- */

/* Declares `name`, the block's shared memory of the size that its launch gives. A macro because the emulation without
 * a GPU has another declaration (tests/gpu/emulated/cuda.hpp). */
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) char name[]
#endif

/* Combines one value of each of N threads in a fixed tree; all threads get the result. `part` has N elements. */
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
enum { WARP = 32 };
/* Sum over the threads of a warp, for all of them. */
static __device__ inline float add_warp(float value) {
    for (int step = WARP / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
}
template <int N, class V> static __device__ V add_block(V value, V *part) {
    return fold_block<N>(value, part, [](V a, V b) { return a + b; });
}

/* Combines the values of each column of an array of threads, [rows][N], in the order of the rows; the first row gets
 * the results. `part` has N rows of W elements. */
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

/* Adds this block to *arrived. Returns true in all threads of the last of `blocks` blocks. These threads see everything
 * that the other blocks wrote before, and must combine it in an order that does not depend on which block is last. All
 * threads of a block must call this function. *arrived is a counter in device memory (zt_cuda_arrived of device/cuda.h)
 * that is zero before and after the launch. */
static __device__ inline bool is_last_of(unsigned *arrived, unsigned blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
        last = atomicInc(arrived, blocks - 1) == blocks - 1;
    __syncthreads();
    const bool is_last = last;
    if (is_last)
        __threadfence();
    __syncthreads(); /* so that the counter can be used again */
    return is_last;
}
/* is_last_of() for the whole grid. */
static __device__ inline bool is_last_block(unsigned *arrived) {
    return is_last_of(arrived, gridDim.x * gridDim.y * gridDim.z);
}

/* Part `part` of `count` items divided into `parts` parts. */
struct span {
    int64_t first, end;
};
static __device__ inline struct span part_of(int64_t count, int64_t parts, int64_t part) {
    const int64_t each = (count + parts - 1) / parts, first = part * each < count ? part * each : count;
    return { first, first + each < count ? first + each : count };
}

/* Returns the last of `count` entries whose first block is at most this block. */
static __device__ inline int entry_of(const unsigned *blocks, int count) {
    int low = 0, high = count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (blocks[middle] <= blockIdx.x)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Returns the number of blocks for items of one block each; kernels loop with a grid stride. */
static inline unsigned job_blocks(int64_t jobs) {
    return (unsigned)(jobs < 65535 ? jobs : 65535);
}

#endif
