/* Sums of products over any axes (ops/matmul/einsum.c) that are no matrix product: a thread adds up a short sum, a
 * block a long one. */
#include "ops/matmul/launch_einsum.h"
#include "ops/cuda/tensor.cuh"

enum { LONG = 256 }; /* elements from which on a block adds up a sum */

/* Adds to each tensor's offset that of index i of the axes. */
static __device__ void walk(int axes, const int64_t *dim, const int64_t (*step)[ZT_MAX_RANK], int tensors, int64_t i,
                            int64_t *place) {
    for (int k = axes - 1; k >= 0; k--) {
        const int64_t at = i % dim[k];
        i /= dim[k];
        for (int t = 0; t < tensors; t++)
            place[t] += at * step[t][k];
    }
}

/* Adds up elements first, first + step, ... of result i; *to becomes the result's offset. */
static __device__ float part_of_sum(const struct zt_launch_contraction &c, int64_t i, int64_t first, int64_t step,
                                    int64_t *to) {
    int64_t start[ZT_LAUNCH_OPERANDS + 1] = { 0 };
    float sum = 0;
    walk(c.result_axes, c.result_dim, c.result_step, c.operands + 1, i, start);
    for (int64_t k = first; k < c.reduced; k += step) {
        int64_t place[ZT_LAUNCH_OPERANDS + 1];
        float product = 1;
        for (int t = 0; t < c.operands; t++)
            place[t] = start[t];
        walk(c.reduced_axes, c.reduced_dim, c.reduced_step, c.operands, k, place);
        for (int t = 0; t < c.operands; t++)
            product *= get(c.operand[t], place[t]);
        sum += product;
    }
    *to = start[c.operands];
    return sum;
}

static __global__ void short_kernel(struct zt_launch_contraction c) {
    EACH(i, c.results) {
        int64_t to;
        const float sum = part_of_sum(c, i, 0, 1, &to);
        put(c.y, to, sum);
    }
}

static __global__ void long_kernel(struct zt_launch_contraction c) {
    __shared__ float part[BLOCK];
    for (int64_t i = blockIdx.x; i < c.results; i += gridDim.x) {
        int64_t to;
        const float sum = add_block<BLOCK>(part_of_sum(c, i, threadIdx.x, BLOCK, &to), part);
        if (threadIdx.x == 0)
            put(c.y, to, sum);
    }
}

int zt_launch_contraction(cudaStream_t stream, const struct zt_launch_contraction *c) {
    if (c->results <= 0)
        return cudaSuccess;
    if (c->reduced < LONG)
        short_kernel<<<blocks_for(c->results), BLOCK, 0, stream>>>(*c);
    else
        long_kernel<<<job_blocks(c->results), BLOCK, 0, stream>>>(*c);
    return cudaGetLastError();
}
