#include "tests/ops/cuda/last_block.h"

#include "base/block.cuh"

#include <cuda_runtime.h>

/* Each block adds what is its own; the last one of a row adds the parts of the row, the last one of all those rows. */
static __global__ void last_block_kernel(struct last_block x) {
    __shared__ double room[BLOCK];
    const int64_t first = (int64_t)(blockIdx.y * gridDim.x + blockIdx.x) * x.each;
    double sum = 0;
    for (int64_t i = first + threadIdx.x; i < first + x.each; i += BLOCK)
        sum += x.from[i];
    sum = add_block<BLOCK>(sum, room);
    if (threadIdx.x == 0)
        x.parts[blockIdx.y * gridDim.x + blockIdx.x] = sum;
    if (is_last_of(&x.arrived[1 + blockIdx.y], gridDim.x) && threadIdx.x == 0) {
        x.rows[blockIdx.y] = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            x.rows[blockIdx.y] += x.parts[blockIdx.y * gridDim.x + i];
        x.lasts[blockIdx.y] = (int)blockIdx.x;
    }
    if (is_last_block(x.arrived) && threadIdx.x == 0) {
        *x.sum = 0;
        for (unsigned i = 0; i < gridDim.y; i++)
            *x.sum += x.rows[i];
    }
}

int launch_last_block(cudaStream_t stream, const struct last_block *x) {
    last_block_kernel<<<dim3((unsigned)x->width, (unsigned)x->height), BLOCK, 0, stream>>>(*x);
    return cudaGetLastError();
}
