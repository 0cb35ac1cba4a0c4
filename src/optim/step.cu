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
    for (int k = 0; k < 2; k++) {
        double sum = add_block<BLOCK>(sums[k], room);
        if (threadIdx.x == 0)
            s.norms[2 * blockIdx.x + k] = sum;
    }
}

static __global__ void lamb_ratios_kernel(struct zt_step_call s) {
    struct zt_lamb c = coefficients_of(s, 0).lamb; /* the limits of the ratio are those of all groups */
    EACH(t, s.tensor_count) {
        s.ratios[t] = zt_lamb_ratio(&c, s.norms + 2 * t);
    }
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

int zt_launch_lamb_ratios(cudaStream_t stream, const struct zt_step_call *s) {
    lamb_ratios_kernel<<<blocks_for(s->tensor_count), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

int zt_launch_lamb(cudaStream_t stream, const struct zt_step_call *s) {
    lamb_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

/* ---- the state: one thread ---- */

static __global__ void add_loss_kernel(struct zt_step_state *state, const float *loss, struct zt_step_feed *feed) {
    if (threadIdx.x != 0)
        return;
    if (feed->samples > 0)
        state->loss += (double)*loss * feed->samples;
    feed->scaled = feed->seed * zt_scaling_seed(state->loss_scale);
}

static __global__ void clip_kernel(struct zt_step_state *state, double clip) {
    if (threadIdx.x != 0)
        return;
    state->norm = sqrt(state->squares) / state->loss_scale;
    state->finite = isfinite(state->norm) && isfinite(state->loss);
    double factor = clip / (state->norm + 1e-6); /* zt_clip_factor */
    state->scale = (float)((clip > 0 && factor < 1 ? factor : 1) / state->loss_scale);
}

static __global__ void advance_kernel(struct zt_step_state *state) {
    if (threadIdx.x != 0)
        return;
    state->updates += state->finite;
    state->scaled = state->loss_scale;
    zt_scaling_step(&state->scaling, !state->finite);
    if (state->scaling.dynamic)
        state->loss_scale = state->scaling.scale;
}

int zt_launch_add_loss(cudaStream_t stream, struct zt_step_state *state, const float *loss, struct zt_step_feed *feed) {
    add_loss_kernel<<<1, 32, 0, stream>>>(state, loss, feed);
    return cudaGetLastError();
}

int zt_launch_clip(cudaStream_t stream, struct zt_step_state *state, double clip) {
    clip_kernel<<<1, 32, 0, stream>>>(state, clip);
    return cudaGetLastError();
}

int zt_launch_advance(cudaStream_t stream, struct zt_step_state *state) {
    advance_kernel<<<1, 32, 0, stream>>>(state);
    return cudaGetLastError();
}
