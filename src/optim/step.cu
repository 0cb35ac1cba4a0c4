#include "optim/step_cuda.h"

#include "base/block.cuh"

#include <cuda_runtime.h>

/* ---- the optimizers: a block of threads for each part of each piece ---- */

static unsigned blocks_of(const struct zt_step_call *s) {
    return (unsigned)(s->piece_count * ZT_STEP_PARTS);
}

/* What this block does: `count` elements of its piece. */
struct part {
    const struct zt_step_piece *piece;
    int64_t first;
    int count;
};

static __device__ struct part find_part(const struct zt_step_call &s) {
    struct part p = { .piece = &s.pieces[blockIdx.x / ZT_STEP_PARTS], .first = 0, .count = 0 };
    const int64_t first = (int64_t)(blockIdx.x % ZT_STEP_PARTS) * ZT_STEP_PART, left = p.piece->count - first;
    p.first = first;
    p.count = left < 0 || !s.state->finite ? 0 : left < ZT_STEP_PART ? (int)left : (int)ZT_STEP_PART;
    return p;
}

static __device__ union zt_coefficients coefficients_of(const struct zt_step_call &s, int group) {
    union zt_coefficients c = s.table[(s.state->updates - s.state->first) * s.groups + group];
    c.scale = s.state->scale;
    return c;
}

/* Calls step(x) with an element of each of N arrays, for the `wide` that lie at pack q, and writes the first `written`
 * of x back. */
template <int wide, int written, int N, class Step>
static __device__ void step_pack(float *const (&at)[N], int q, Step step) {
    pack<float, wide> all[N];
    for (int k = 0; k < N; k++)
        all[k] = ((const pack<float, wide> *)at[k])[q];
    for (int lane = 0; lane < wide; lane++) {
        float x[N];
        for (int k = 0; k < N; k++)
            x[k] = all[k].at[lane];
        step(x);
        for (int k = 0; k < written; k++)
            all[k].at[lane] = x[k];
    }
    for (int k = 0; k < written; k++)
        ((pack<float, wide> *)at[k])[q] = all[k];
}

/* At each place of a part. 16 bytes of each array at a time where all of them lie at multiples of 16. */
template <int written, int N, class Step>
static __device__ void each_of(const struct part &part, const float *const (&array)[N], Step step) {
    enum { WIDE = sizeof(pack<float>) / sizeof(float) };
    uintptr_t bits = 0;
    float *at[N];
    for (int k = 0; k < N; k++) {
        at[k] = (float *)array[k] + part.first;
        bits |= (uintptr_t)at[k];
    }
    const int packs = bits % sizeof(pack<float>) ? 0 : part.count / WIDE;
    for (int q = (int)threadIdx.x; q < packs; q += BLOCK)
        step_pack<WIDE, written>(at, q, step);
    for (int i = WIDE * packs + (int)threadIdx.x; i < part.count; i += BLOCK)
        step_pack<1, written>(at, i, step);
}

static __global__ void adam_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_adam c = coefficients_of(s, p->group).adam;
    each_of<3>(part, { p->param, p->state[0], p->state[1], p->grad },
               [&](float *x) { zt_adam_step(&c, &x[0], x[3], &x[1], &x[2]); });
}

static __global__ void sgd_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_sgd c = coefficients_of(s, p->group).sgd;
    if (p->state[0])
        each_of<2>(part, { p->param, p->state[0], p->grad },
                   [&](float *x) { zt_sgd_momentum_step(&c, &x[0], x[2], &x[1]); });
    else
        each_of<1>(part, { p->param, p->grad }, [&](float *x) { zt_sgd_step(&c, &x[0], x[1]); });
}

static __global__ void lion_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_lion c = coefficients_of(s, p->group).lion;
    each_of<2>(part, { p->param, p->state[0], p->grad }, [&](float *x) { zt_lion_step(&c, &x[0], x[2], &x[1]); });
}

static __global__ void adagrad_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_adagrad c = coefficients_of(s, p->group).adagrad;
    each_of<2>(part, { p->param, p->state[0], p->grad }, [&](float *x) { zt_adagrad_step(&c, &x[0], x[2], &x[1]); });
}

static __global__ void lamb_moments_kernel(struct zt_step_call s) {
    __shared__ double room[BLOCK];
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_lamb c = coefficients_of(s, p->group).lamb;
    double weights = 0, directions = 0;
    each_of<2>(part, { p->state[0], p->state[1], p->param, p->grad }, [&](float *x) {
        const float u = zt_lamb_moments(&c, x[2], x[3], &x[0], &x[1]);
        weights += (double)x[2] * (double)x[2];
        directions += (double)u * (double)u;
    });
    weights = add_block<BLOCK>(weights, room);
    directions = add_block<BLOCK>(directions, room);
    if (threadIdx.x == 0) {
        s.parts[2 * blockIdx.x] = weights;
        s.parts[2 * blockIdx.x + 1] = directions;
    }
}

/* A block a tensor. */
static __global__ void lamb_norms_kernel(struct zt_step_call s) {
    __shared__ double room[BLOCK];
    double sums[2] = { 0, 0 };
    for (int i = (int)threadIdx.x; i < s.piece_count; i += BLOCK)
        for (int k = 0; k < ZT_STEP_PARTS && s.pieces[i].measured && s.pieces[i].tensor == (int)blockIdx.x; k++) {
            sums[0] += s.parts[2 * (i * ZT_STEP_PARTS + k)];
            sums[1] += s.parts[2 * (i * ZT_STEP_PARTS + k) + 1];
        }
    double norms[2];
    for (int k = 0; k < 2; k++)
        norms[k] = add_block<BLOCK>(sums[k], room);
    if (threadIdx.x != 0)
        return;
    const struct zt_lamb c = coefficients_of(s, 0).lamb; /* the limits of the ratio are those of all groups */
    for (int k = 0; k < 2; k++)
        s.norms[2 * blockIdx.x + k] = norms[k];
    s.ratios[blockIdx.x] = zt_lamb_ratio(&c, norms);
}

static __global__ void lamb_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_lamb c = coefficients_of(s, p->group).lamb;
    const float lr = (float)(c.rate * s.ratios[p->tensor]);
    each_of<1>(part, { p->param, p->state[0], p->state[1] },
               [&](float *x) { zt_lamb_apply(&c, lr, &x[0], x[1], x[2]); });
}

int zt_launch_adam(cudaStream_t stream, const struct zt_step_call *s) {
    adam_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

int zt_launch_sgd(cudaStream_t stream, const struct zt_step_call *s) {
    sgd_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

int zt_launch_lion(cudaStream_t stream, const struct zt_step_call *s) {
    lion_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

int zt_launch_adagrad(cudaStream_t stream, const struct zt_step_call *s) {
    adagrad_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

int zt_launch_lamb_norms(cudaStream_t stream, const struct zt_step_call *s) {
    if (s->piece_count > 0)
        lamb_moments_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    if (s->tensor_count > 0)
        lamb_norms_kernel<<<(unsigned)s->tensor_count, BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

int zt_launch_lamb(cudaStream_t stream, const struct zt_step_call *s) {
    lamb_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

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

/* What the last block does with the sum of the squares. */
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
