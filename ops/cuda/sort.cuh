/* Sources sorted by the places they go to, those of one place in their own order: a stable radix sort from the lowest
 * digit up, so what is summed along it is summed in the same order every time. */
#ifndef ZT_OPS_CUDA_SORT_CUH
#define ZT_OPS_CUDA_SORT_CUH

#include "ops/cuda/launch_copy.h"
#include "ops/cuda/types.cuh"

/* Sorted sources, batch behind batch: key << bits | source; the key is `keys` where the source goes nowhere. */
struct order {
    const uint64_t *sorted;
    int bits;
};
struct ordered { /* a batch of them */
    struct order order;
    const uint64_t *item;
    __device__ int64_t key(int64_t k) const {
        return (int64_t)(item[k] >> order.bits);
    }
    __device__ int64_t source(int64_t k) const {
        return (int64_t)(item[k] & (((uint64_t)1 << order.bits) - 1));
    }
};

enum { SORTERS = 1024, DIGIT = 3, DIGITS = 1 << DIGIT }; /* threads at most; bits and values of a digit */

/* count[digit][thread] becomes the number of items before the first that this thread has of this digit. */
static __device__ inline void scan_counts(uint32_t *count, uint32_t *total) {
    const int me = (int)threadIdx.x;
    uint32_t sum = 0;
    for (int e = DIGITS * me; e < DIGITS * (me + 1); e++) {
        const uint32_t here = count[e];
        count[e] = sum;
        sum += here;
    }
    total[me] = sum;
    __syncthreads();
    for (int step = 1; step < (int)blockDim.x; step *= 2) {
        const uint32_t before = me >= step ? total[me - step] : 0;
        __syncthreads();
        total[me] += before;
        __syncthreads();
    }
    for (int e = DIGITS * me; e < DIGITS * (me + 1); e++)
        count[e] += total[me] - sum;
    __syncthreads();
}

/* A block a batch; each thread takes a stretch of it. What an odd number of passes sorts ends in `other`. */
template <class Sources>
static __global__ void __launch_bounds__(SORTERS)
    sort_kernel(Sources from, int bits, int passes, uint64_t *items, uint64_t *other) {
    __shared__ uint32_t count[DIGITS * SORTERS], total[SORTERS];
    const int64_t together = from.together();
    const struct span mine = part_of(together, blockDim.x, threadIdx.x);
    for (int64_t batch = blockIdx.x; batch < from.orders(); batch += gridDim.x) {
        uint64_t *a = items + batch * together, *b = other + batch * together;
        for (int64_t k = threadIdx.x; k < together; k += blockDim.x) {
            const int64_t key = from.key(batch, k);
            a[k] = (uint64_t)(key < 0 ? from.keys() : key) << bits | (uint64_t)k;
        }
        __syncthreads();
        for (int pass = 0; pass < passes; pass++) {
            const int shift = bits + DIGIT * pass;
            for (int d = 0; d < DIGITS; d++)
                count[d * blockDim.x + threadIdx.x] = 0;
            for (int64_t k = mine.first; k < mine.end; k++)
                count[(a[k] >> shift) % DIGITS * blockDim.x + threadIdx.x]++;
            __syncthreads();
            scan_counts(count, total);
            for (int64_t k = mine.first; k < mine.end; k++)
                b[count[(a[k] >> shift) % DIGITS * blockDim.x + threadIdx.x]++] = a[k];
            __syncthreads();
            uint64_t *sorted = b;
            b = a;
            a = sorted;
        }
    }
}

static inline int bits_of(int64_t most) { /* what 0..most needs */
    int bits = 0;
    while (bits < 63 && most >> bits > 0)
        bits++;
    return bits;
}

/* Of workspace; SIZE_MAX: too many. */
template <class Sources> static size_t order_bytes(const Sources &from) {
    const int64_t together = from.together();
    return together > UINT32_MAX || bits_of(together - 1) + bits_of(from.keys()) > 64
               ? SIZE_MAX
               : 2 * sizeof(uint64_t) * (size_t)(from.orders() * together);
}

template <class Sources>
static struct order sort_sources(cudaStream_t stream, const Sources &from, uint64_t *workspace) {
    const int64_t together = from.together(), count = from.orders() * together;
    const int bits = bits_of(together - 1), passes = (bits_of(from.keys()) + DIGIT - 1) / DIGIT;
    unsigned threads = 32;
    while (threads < SORTERS && threads < together)
        threads *= 2;
    sort_kernel<Sources>
        <<<job_blocks(from.orders()), threads, 0, stream>>>(from, bits, passes, workspace, workspace + count);
    return { passes % 2 ? workspace + count : workspace, bits };
}

#endif
