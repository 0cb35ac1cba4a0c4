#include "optim/step_cuda.h"

#include "optim/step.cuh"

#include <cuda_runtime.h>

/* ---- the state: one thread ---- */

static __global__ void scale_seed_kernel(const struct zt_step_state *state, struct zt_step_feed *feed) {
    if (threadIdx.x == 0)
        feed->scaled = feed->seed * zt_scaling_seed(state->loss_scale);
}

static __global__ void add_loss_kernel(struct zt_step_state *state, const float *loss, const double *samples) {
    if (threadIdx.x == 0)
        zt_step_add_loss(state, loss, samples);
}

static __global__ void clip_kernel(struct zt_step_state *state, double clip) {
    if (threadIdx.x == 0)
        zt_step_clip(state, clip);
}

int zt_launch_scale_seed(cudaStream_t stream, const struct zt_step_state *state, struct zt_step_feed *feed) {
    scale_seed_kernel<<<1, 32, 0, stream>>>(state, feed);
    return cudaGetLastError();
}

int zt_launch_add_loss(cudaStream_t stream, struct zt_step_state *state, const float *loss, const double *samples) {
    add_loss_kernel<<<1, 32, 0, stream>>>(state, loss, samples);
    return cudaGetLastError();
}

int zt_launch_clip(cudaStream_t stream, struct zt_step_state *state, double clip) {
    clip_kernel<<<1, 32, 0, stream>>>(state, clip);
    return cudaGetLastError();
}

/* ---- the norm ---- */

/* The last block adds the sum of the squares to the state. */
static __device__ void take_squares(const struct zt_step_norm &n, double squares) {
    n.state->squares += squares;
    if (n.loss)
        zt_step_add_loss(n.state, n.loss, n.samples);
    if (n.whole)
        zt_step_clip(n.state, n.clip);
}

/* A block adds numbers i, i + BLOCK, ... of its slice, the last one what all blocks have; a block's threads' sums are
 * added in a fixed tree. */
static __global__ void norm_kernel(struct zt_launch_step_norm x) {
    __shared__ double room[BLOCK];
    const int entry = entry_of(x.blocks, x.count);
    const struct zt_floats f = x.at[entry];
    const int64_t first = (blockIdx.x - x.blocks[entry]) * x.slice;
    double sum = 0;
    for (int64_t i = first + threadIdx.x; i < first + x.slice && i < f.count; i += BLOCK)
        sum += (double)f.at[i] * (double)f.at[i];
    sum = add_block<BLOCK>(sum, room);
    if (threadIdx.x == 0)
        x.parts[blockIdx.x] = sum;
    if (!is_last_block(x.arrived))
        return;
    sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += BLOCK)
        sum += x.parts[i];
    sum = add_block<BLOCK>(sum, room);
    if (threadIdx.x == 0)
        take_squares(x.of, sum);
}

int zt_launch_step_norm(cudaStream_t stream, struct zt_launch_step_norm *x) {
    int64_t all = 0;
    for (int i = 0; i < x->count; i++)
        all += x->at[i].count;
    x->slice = (all + ZT_SQUARE_PARTS - ZT_SQUARES - 1) / (ZT_SQUARE_PARTS - ZT_SQUARES);
    x->slice = x->slice < 4096 ? 4096 : x->slice;
    x->blocks[0] = 0;
    for (int i = 0; i < x->count; i++)
        x->blocks[i + 1] = x->blocks[i] + (unsigned)((x->at[i].count + x->slice - 1) / x->slice);
    const unsigned blocks = x->count ? x->blocks[x->count] : 0;
    if (x->count == 0)
        x->at[x->count++] = { NULL, 0 };
    norm_kernel<<<blocks ? blocks : 1, BLOCK, 0, stream>>>(*x); /* also of nothing: the loss is added there */
    return cudaGetLastError();
}

/* ---- the average of the weights ---- */

static __global__ void average_kernel(struct zt_step_call s, float keep, float take) {
    const struct part part = find_part(s);
    each_of<1>(part, { part.piece->average, part.piece->param },
               [&](float *x) { zt_step_average(keep, take, x[1], &x[0]); });
}

static __global__ void swap_kernel(struct zt_step_call s) {
    struct part part = find_part(s);
    const int64_t left = part.piece->count - part.first;
    part.count = left < 0 ? 0 : left < ZT_STEP_PART ? (int)left : (int)ZT_STEP_PART; /* whatever the last step was */
    each_of<2>(part, { part.piece->average, part.piece->param }, [&](float *x) {
        const float weight = x[1];
        x[1] = x[0];
        x[0] = weight;
    });
}

int zt_launch_average(cudaStream_t stream, const struct zt_step_call *s, double decay) {
    average_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s, (float)decay, (float)(1 - decay));
    return cudaGetLastError();
}

int zt_launch_swap_average(cudaStream_t stream, const struct zt_step_call *s) {
    swap_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}
