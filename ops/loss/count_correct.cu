/* CountCorrect (ops/loss/loss.c): a block takes a row, and the last block adds up the counts of all rows. */
#include "ops/loss/launch_count_correct.h"
#include "ops/reduce/extreme.cuh"

/* Adds up the counts of all rows, by a block. */
static __device__ void add_counts(int64_t rows, const struct zt_launch_counts &to) {
    __shared__ float part[SLICE_THREADS];
    float sum[2] = { 0, 0 };
    for (int64_t row = threadIdx.x; row < rows; row += SLICE_THREADS) {
        sum[0] += (float)to.counts[2 * row];
        sum[1] += (float)to.counts[2 * row + 1];
    }
    sum[0] = add_block<SLICE_THREADS>(sum[0], part);
    sum[1] = add_block<SLICE_THREADS>(sum[1], part);
    if (threadIdx.x == 0) {
        *to.correct = sum[0];
        if (to.counted)
            *to.counted = sum[1];
    }
}

static __global__ void correct_kernel(struct zt_launch_count c, struct zt_launch_tensor x,
                                      struct zt_launch_tensor target, struct zt_launch_tensor weight,
                                      struct zt_launch_counts to) {
    __shared__ struct found places[SLICE_THREADS];
    const int64_t rows = c.outer * c.inner, each = c.samples > 0 ? rows / c.samples : 0;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int64_t wanted = int_at(target.dtype, target.data, row);
        const struct found best = extreme_of(x, slice_of(c, row), { false, false }, places);
        const bool counts_here = wanted != c.ignore && (!weight.data || get(weight, row / (each > 0 ? each : 1)) != 0);
        if (threadIdx.x == 0) {
            to.counts[2 * row] = counts_here && best.at == wanted;
            to.counts[2 * row + 1] = counts_here;
        }
    }
    if (is_last_block(to.arrived))
        add_counts(rows, to);
}

int zt_launch_count_correct(cudaStream_t stream, const struct zt_launch_count *c, struct zt_launch_tensor x,
                            struct zt_launch_tensor target, struct zt_launch_tensor weight,
                            const struct zt_launch_counts *to) {
    const unsigned blocks = blocks_for(c->outer * c->inner * BLOCK); /* a block a row, at least one */
    correct_kernel<<<blocks, SLICE_THREADS, 0, stream>>>(*c, x, target, weight, *to);
    return cudaGetLastError();
}
