/* A stable radix sort of sources by the place they go to, from the lowest digit up. Sources of one place keep their
 * order, so that a sum along them has the same bits every time. One block sorts a batch, or many blocks do. */
#ifndef ZT_OPS_MOVEMENT_SORT_CUH
#define ZT_OPS_MOVEMENT_SORT_CUH

#include "ops/movement/launch_gather.h"
#include "ops/cuda/types.cuh"

/* Sorted sources of every batch: key << bits | source. The key of a source that goes nowhere is `keys`. */
struct order {
    const uint64_t *sorted;
    int bits;
};
struct ordered { /* one batch of them */
    struct order order;
    const uint64_t *item;
    __device__ int64_t key(int64_t k) const {
        return (int64_t)(item[k] >> order.bits);
    }
    __device__ int64_t source(int64_t k) const {
        return (int64_t)(item[k] & (((uint64_t)1 << order.bits) - 1));
    }
};

/* Every thread of a block counts its items of each digit: count[digit][thread]. A block that sorts a batch alone has
 * digits of 3 bits and 1024 threads; one of several blocks has digits of 5 bits and 256 threads. */
enum { SORTERS = 1024, ALONE_BITS = 3, TOGETHER_BITS = 5, COUNTERS = SORTERS << ALONE_BITS };
enum {
    SOME = COUNTERS >> TOGETHER_BITS, /* threads of one of several blocks */
    EACH_HAS = 16,                    /* items of a thread */
    SEGMENT = SOME * EACH_HAS         /* items of all threads */
};

/* The counters in shared memory, padded so that the stretches of the threads begin in different banks. */
struct counters {
    uint32_t room[COUNTERS + COUNTERS / 32];
    __device__ uint32_t &operator[](unsigned e) {
        return room[e + e / 32];
    }
};

/* Exclusive prefix sum by a block: at(e) becomes at(0) + ... + at(e - 1), for `entries` entries. A thread takes a
 * stretch. */
template <class At> static __device__ void scan(int64_t entries, uint32_t *total, At at) {
    const struct span mine = part_of(entries, blockDim.x, threadIdx.x);
    const int me = (int)threadIdx.x;
    uint32_t sum = 0;
    for (int64_t e = mine.first; e < mine.end; e++) {
        const uint32_t here = at(e);
        at(e) = sum;
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
    for (int64_t e = mine.first; e < mine.end; e++)
        at(e) += total[me] - sum;
    __syncthreads();
}

/* A digit of the items. */
struct digit {
    int shift;
    unsigned values;
    __device__ unsigned of(uint64_t item) const {
        return (unsigned)(item >> shift) % values;
    }
};

/* count[digit][thread] becomes the number of items before the first that this thread has of this digit; items first,
 * first + step, ... are its own. */
static __device__ inline void count_digits(const uint64_t *a, struct span mine, int64_t step, const struct digit &digit,
                                           struct counters &count, uint32_t *total) {
    for (unsigned d = 0; d < digit.values; d++)
        count[d * blockDim.x + threadIdx.x] = 0;
    for (int64_t k = mine.first; k < mine.end; k += step)
        count[digit.of(a[k]) * blockDim.x + threadIdx.x]++;
    __syncthreads();
    scan(digit.values * blockDim.x, total, [&](int64_t e) -> uint32_t & { return count[(unsigned)e]; });
}

template <class Sources> static __device__ uint64_t item_of(const Sources &from, int bits, int64_t batch, int64_t k) {
    const int64_t key = from.key(batch, k);
    return (uint64_t)(key < 0 ? from.keys() : key) << bits | (uint64_t)k;
}

/* ---- a block a batch; each thread takes a stretch of it ---- */

/* After an odd number of passes the result is in `other`. */
template <class Sources>
static __global__ void __launch_bounds__(SORTERS)
    sort_kernel(Sources from, int bits, int passes, uint64_t *items, uint64_t *other) {
    __shared__ struct counters count;
    __shared__ uint32_t total[SORTERS];
    const int64_t together = from.together();
    const struct span mine = part_of(together, blockDim.x, threadIdx.x);
    for (int64_t batch = blockIdx.x; batch < from.orders(); batch += gridDim.x) {
        uint64_t *a = items + batch * together, *b = other + batch * together;
        for (int64_t k = threadIdx.x; k < together; k += blockDim.x)
            a[k] = item_of(from, bits, batch, k);
        __syncthreads();
        for (int pass = 0; pass < passes; pass++) {
            const struct digit digit = { bits + ALONE_BITS * pass, 1 << ALONE_BITS };
            count_digits(a, mine, 1, digit, count, total);
            for (int64_t k = mine.first; k < mine.end; k++)
                b[count[digit.of(a[k]) * blockDim.x + threadIdx.x]++] = a[k];
            __syncthreads();
            uint64_t *sorted = b;
            b = a;
            a = sorted;
        }
    }
}

/* ---- many blocks a batch, the grid's second axis the batches: two launches a digit ---- */

/* A pass sorts a by a digit into b. `starts` is [batch][digit][block]. The first pass fills a. */
struct pass {
    int bits;
    bool first;
    struct digit digit;
    uint64_t *a, *b;
    uint32_t *starts;
    unsigned *arrived; /* a counter a batch */
};

/* Computes `starts`, where each block's items of each digit go: the last block of a batch adds up the counts of all. */
template <class Sources> static __global__ void __launch_bounds__(SOME) sort_count_kernel(Sources from, struct pass p) {
    __shared__ struct counters count;
    __shared__ uint32_t total[SOME];
    const int64_t together = from.together(), batch = blockIdx.y;
    const struct span block = part_of(together, gridDim.x, blockIdx.x);
    const unsigned me = threadIdx.x, digits = p.digit.values;
    uint64_t *a = p.a + batch * together;
    uint32_t *starts = p.starts + batch * digits * gridDim.x;
    for (int64_t k = block.first + me; p.first && k < block.end; k += SOME)
        a[k] = item_of(from, p.bits, batch, k);
    count_digits(a, { block.first + me, block.end }, SOME, p.digit, count, total);
    if (me < digits)
        starts[me * gridDim.x + blockIdx.x] =
            (me + 1 < digits ? count[(me + 1) * SOME] : (uint32_t)(block.end - block.first)) - count[me * SOME];
    if (is_last_of(&p.arrived[batch], gridDim.x))
        scan((int64_t)digits * gridDim.x, total, [&](int64_t e) -> uint32_t & { return starts[e]; });
}

/* A block goes through its items segment by segment; each thread takes a stretch of a segment. */
template <class Sources> static __global__ void __launch_bounds__(SOME) sort_put_kernel(Sources from, struct pass p) {
    __shared__ struct counters count;
    __shared__ uint32_t total[SOME], next[1 << TOGETHER_BITS], shift[1 << TOGETHER_BITS];
    const int64_t together = from.together(), batch = blockIdx.y;
    const struct span block = part_of(together, gridDim.x, blockIdx.x);
    const unsigned me = threadIdx.x, digits = p.digit.values;
    const uint64_t *a = p.a + batch * together;
    uint64_t *b = p.b + batch * together;
    if (me < digits)
        next[me] = p.starts[(batch * digits + me) * gridDim.x + blockIdx.x];
    for (int64_t segment = block.first; segment < block.end; segment += SEGMENT) {
        const int64_t end = least(segment + SEGMENT, block.end), first = least(segment + me * EACH_HAS, end);
        const struct span mine = { first, least(first + EACH_HAS, end) };
        count_digits(a, mine, 1, p.digit, count, total);
        if (me < digits) {
            const uint32_t begin = count[me * SOME];
            shift[me] = next[me] - begin;
            next[me] += (me + 1 < digits ? count[(me + 1) * SOME] : (uint32_t)(end - segment)) - begin;
        }
        __syncthreads();
        for (int64_t k = mine.first; k < mine.end; k++) {
            const unsigned d = p.digit.of(a[k]);
            b[shift[d] + count[d * SOME + me]++] = a[k];
        }
        __syncthreads();
    }
}

/* ---- launching ---- */

static inline int bits_of(int64_t most) { /* of a number 0..most */
    int bits = 0;
    while (bits < 63 && most >> bits > 0)
        bits++;
    return bits;
}

enum { MOST_ALONE = 1 << 15, MOST_ORDERS = 64, MOST_BLOCKS = 256 }; /* MOST_BLOCKS: of all batches */

/* Blocks that sort a batch together; 0: one block sorts it alone, because batches are many or small. */
template <class Sources> static unsigned blocks_of_batch(const Sources &from) {
    const int64_t orders = from.orders(), segments = (from.together() + SEGMENT - 1) / SEGMENT;
    if (from.together() <= MOST_ALONE || orders == 0 || orders > MOST_ORDERS)
        return 0;
    return (unsigned)(segments < MOST_BLOCKS / orders ? segments : MOST_BLOCKS / orders);
}

/* Bytes of workspace; SIZE_MAX: too many sources. */
template <class Sources> static size_t order_bytes(const Sources &from) {
    const int64_t together = from.together(), starts = (from.orders() * blocks_of_batch(from)) << TOGETHER_BITS;
    return together > UINT32_MAX || bits_of(together - 1) + bits_of(from.keys()) > 64
               ? SIZE_MAX
               : 2 * sizeof(uint64_t) * (size_t)(from.orders() * together) + (size_t)starts * sizeof(uint32_t);
}

template <class Sources>
static struct order sort_together(cudaStream_t stream, const Sources &from, const struct zt_launch_room &room) {
    const int64_t together = from.together(), count = from.orders() * together;
    const int bits = bits_of(together - 1), key_bits = bits_of(from.keys());
    const dim3 grid(blocks_of_batch(from), (unsigned)from.orders());
    uint64_t *a = (uint64_t *)room.workspace, *b = a + count;
    uint32_t *starts = (uint32_t *)(b + count);
    for (int done = 0; done == 0 || done < key_bits; done += TOGETHER_BITS) {
        const struct pass p = { bits, done == 0, { bits + done, 1 << TOGETHER_BITS }, a, b, starts, room.arrived };
        sort_count_kernel<Sources><<<grid, SOME, 0, stream>>>(from, p);
        sort_put_kernel<Sources><<<grid, SOME, 0, stream>>>(from, p);
        uint64_t *sorted = b;
        b = a;
        a = sorted;
    }
    return { a, bits };
}

template <class Sources> static struct order sort_alone(cudaStream_t stream, const Sources &from, uint64_t *workspace) {
    const int64_t together = from.together(), count = from.orders() * together;
    const int bits = bits_of(together - 1), passes = (bits_of(from.keys()) + ALONE_BITS - 1) / ALONE_BITS;
    unsigned threads = 32;
    while (threads < SORTERS && threads < together)
        threads *= 2;
    sort_kernel<Sources>
        <<<job_blocks(from.orders()), threads, 0, stream>>>(from, bits, passes, workspace, workspace + count);
    return { passes % 2 ? workspace + count : workspace, bits };
}

template <class Sources>
static struct order sort_sources(cudaStream_t stream, const Sources &from, const struct zt_launch_room &room) {
    return blocks_of_batch(from) ? sort_together(stream, from, room)
                                 : sort_alone(stream, from, (uint64_t *)room.workspace);
}

#endif
