#include "parallel/comm/compressed_cuda.h"

#include "base/block.cuh"

#include <cuda_runtime.h>

/* The lanes of a sum are the threads of a block, and the tree of add_block() is that of the host. */
static_assert((int)BLOCK == (int)ZT_COMPRESSED_LANES, "a thread a lane");

/* y of the worker: 0 instead of x in the filling. */
static __device__ float y_of(const struct zt_compressed_call *c, const struct zt_compressed_part *p, int64_t i) {
    return c->error[ZT_WORKER][p->error_at[ZT_WORKER] + i] + (i < p->count ? c->x[p->first + i] : 0);
}
/* z of the server, element i of its chunk. `part` is the number of p. */
static __device__ float z_of(const struct zt_compressed_call *c, const struct zt_compressed_part *p, int part,
                             int64_t i) {
    const float share = 1 / (float)c->layout.ranks;
    float sum = 0;
    for (int r = 0; r < c->layout.ranks; r++) {
        const unsigned char byte = zt_compressed_message(c, c->in, r)[p->signs_at + i / 8];
        sum += zt_compressed_signed(zt_compressed_scales(c, c->in, r)[part] * share, byte >> i % 8 & 1);
    }
    return sum + c->error[ZT_SERVER][p->error_at[ZT_SERVER] + i];
}
/* Packs the signs of eight errors, which hold y or z, and leaves in them what the signs do not carry. */
static __device__ unsigned char pack_eight(float *error, float scale) {
    unsigned char byte = 0;
    for (int k = 0; k < 8; k++) {
        const int positive = error[k] >= 0;
        byte = (unsigned char)(byte | positive << k);
        error[k] -= zt_compressed_signed(scale, positive);
    }
    return byte;
}

/* Writes y or z of a block to its errors, and the sum of the squares. */
static __global__ void correct_kernel(struct zt_compressed_call c, enum zt_compressed_side side) {
    __shared__ double room[BLOCK];
    const struct zt_compressed_block block = c.layout.block[side][blockIdx.x];
    const struct zt_compressed_part *p = &c.layout.parts[block.part];
    float *error = c.error[side] + p->error_at[side] + block.first;
    double sum = 0;
    for (int i = (int)threadIdx.x; i < block.count; i += BLOCK) {
        const int64_t at = block.first + i;
        const float value = side == ZT_WORKER ? y_of(&c, p, at) : z_of(&c, p, block.part, at);
        error[i] = value;
        sum += (double)value * (double)value;
    }
    sum = add_block<BLOCK>(sum, room);
    if (threadIdx.x == 0)
        c.sums[blockIdx.x] = sum;
}

/* A block a part. */
static __global__ void scale_kernel(struct zt_compressed_call c, enum zt_compressed_side side) {
    __shared__ double room[BLOCK];
    const int part = (int)blockIdx.x;
    const struct zt_compressed_part *p = &c.layout.parts[part];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < p->blocks[side]; i += BLOCK)
        sum += c.sums[p->block[side] + i];
    sum = add_block<BLOCK>(sum, room);
    const float scale = zt_compressed_scale(sum, side == ZT_WORKER ? p->padded : p->chunk);
    if (threadIdx.x == 0)
        c.scale[part] = scale;
    for (int r = (int)threadIdx.x; r < c.layout.ranks; r += BLOCK)
        if (side == ZT_WORKER || r == c.rank)
            zt_compressed_scales(&c, c.out, r)[part] = scale;
}

/* A thread a byte of signs. */
static __global__ void pack_kernel(struct zt_compressed_call c, enum zt_compressed_side side) {
    const struct zt_compressed_block block = c.layout.block[side][blockIdx.x];
    const struct zt_compressed_part *p = &c.layout.parts[block.part];
    float *error = c.error[side] + p->error_at[side] + block.first;
    const int64_t first = block.first + (side == ZT_SERVER ? c.rank * p->chunk : 0);
    for (int i = 8 * (int)threadIdx.x; i < block.count; i += 8 * BLOCK)
        *zt_compressed_byte(&c, p, c.out, first + i) = pack_eight(error + i, c.scale[block.part]);
}

static __global__ void expand_kernel(struct zt_compressed_call c) {
    const struct zt_compressed_block block = c.layout.block[ZT_WORKER][blockIdx.x];
    const struct zt_compressed_part *p = &c.layout.parts[block.part];
    for (int i = (int)threadIdx.x; i < block.count; i += BLOCK) {
        const int64_t at = block.first + i;
        if (at < p->count)
            c.x[p->first + at] = zt_compressed_signed(zt_compressed_scales(&c, c.out, at / p->chunk)[block.part],
                                                      *zt_compressed_byte(&c, p, c.out, at) >> at % 8 & 1);
    }
}

int zt_launch_compressed(cudaStream_t stream, enum zt_compressed_stage stage, const struct zt_compressed_call *call) {
    const enum zt_compressed_side side = stage == ZT_COMPRESS_SERVER ? ZT_SERVER : ZT_WORKER;
    const unsigned blocks = (unsigned)call->layout.blocks[side];
    if (stage == ZT_COMPRESSED_EXPAND) {
        expand_kernel<<<blocks, BLOCK, 0, stream>>>(*call);
        return cudaGetLastError();
    }
    correct_kernel<<<blocks, BLOCK, 0, stream>>>(*call, side);
    scale_kernel<<<(unsigned)call->layout.part_count, BLOCK, 0, stream>>>(*call, side);
    pack_kernel<<<blocks, BLOCK, 0, stream>>>(*call, side);
    return cudaGetLastError();
}
