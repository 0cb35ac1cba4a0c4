#include "optim/step_cuda.h"

#include "base/block.cuh"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* ---- the optimizers: a block of threads for each part of each piece ---- */

static unsigned blocks_of(const struct zt_step_call *s) {
    return (unsigned)(s->piece_count * ZT_STEP_PARTS);
}

/* What this block does: elements first, first + BLOCK, ... below `last` of its piece. */
struct part {
    const struct zt_step_piece *piece;
    int64_t first, last;
};

static __device__ struct part find_part(const struct zt_step_call &s) {
    struct part p = { &s.pieces[blockIdx.x / ZT_STEP_PARTS], 0, 0 };
    int64_t begin = (int64_t)(blockIdx.x % ZT_STEP_PARTS) * ZT_STEP_PART, end = begin + ZT_STEP_PART;
    p.first = begin + threadIdx.x;
    p.last = !s.state->finite ? 0 : end < p.piece->count ? end : p.piece->count;
    return p;
}

static __device__ union zt_coefficients coefficients_of(const struct zt_step_call &s, int group) {
    union zt_coefficients c = s.table[(s.state->updates - s.state->first) * s.groups + group];
    c.scale = s.state->scale;
    return c;
}

#define PART(i, part) for (int64_t i = (part).first; i < (part).last; i += BLOCK)

static __global__ void adam_kernel(struct zt_step_call s) {
    struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    struct zt_adam c = coefficients_of(s, p->group).adam;
    PART(i, part)
    zt_adam_step(&c, &p->param[i], p->grad[i], &p->state[0][i], &p->state[1][i]);
}

static __global__ void sgd_kernel(struct zt_step_call s) {
    struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    struct zt_sgd c = coefficients_of(s, p->group).sgd;
    float *b = p->state[0];
    PART(i, part)
    if (b)
        zt_sgd_momentum_step(&c, &p->param[i], p->grad[i], &b[i]);
    else
        zt_sgd_step(&c, &p->param[i], p->grad[i]);
}

static __global__ void lion_kernel(struct zt_step_call s) {
    struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    struct zt_lion c = coefficients_of(s, p->group).lion;
    PART(i, part)
    zt_lion_step(&c, &p->param[i], p->grad[i], &p->state[0][i]);
}

static __global__ void adagrad_kernel(struct zt_step_call s) {
    struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    struct zt_adagrad c = coefficients_of(s, p->group).adagrad;
    PART(i, part)
    zt_adagrad_step(&c, &p->param[i], p->grad[i], &p->state[0][i]);
}

static __global__ void lamb_moments_kernel(struct zt_step_call s) {
    __shared__ double room[BLOCK];
    struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    struct zt_lamb c = coefficients_of(s, p->group).lamb;
    double weights = 0, directions = 0;
    PART(i, part) {
        float u = zt_lamb_moments(&c, p->param[i], p->grad[i], &p->state[0][i], &p->state[1][i]);
        weights += (double)p->param[i] * (double)p->param[i];
        directions += (double)u * (double)u;
    }
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
    struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    struct zt_lamb c = coefficients_of(s, p->group).lamb;
    float lr = (float)(c.rate * s.ratios[p->tensor]);
    PART(i, part)
    zt_lamb_apply(&c, lr, &p->param[i], p->state[0][i], p->state[1][i]);
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

/* ---- sums ---- */

static __global__ void accumulate_kernel(float *to, const float *from, int64_t count) {
    EACH(i, count) {
        to[i] += from[i];
    }
}

int zt_launch_accumulate(cudaStream_t stream, float *to, const float *from, int64_t count) {
    accumulate_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(to, from, count);
    return cudaGetLastError();
}

/* ---- many copies ---- */

enum { COPY_BLOCKS = 8 }; /* of each copy */

/* Elements of type T from the `first` on, every `step`th; how many bytes all of them take. */
template <class T> static __device__ size_t copy_some(const struct zt_copy &c, size_t first, size_t step) {
    const size_t count = c.bytes / sizeof(T);
    for (size_t i = first; i < count; i += step)
        ((T *)c.to)[i] = ((const T *)c.from)[i];
    return count * sizeof(T);
}

struct alignas(16) sixteen {
    uint64_t half[2];
};

/* By value, so that nothing has to be brought to the device first. */
static __global__ void copies_kernel(struct zt_launch_copies copies) {
    struct zt_copy c = copies.at[blockIdx.x / COPY_BLOCKS];
    const size_t first = (size_t)(blockIdx.x % COPY_BLOCKS) * blockDim.x + threadIdx.x;
    const size_t step = (size_t)COPY_BLOCKS * blockDim.x;
    const uintptr_t ends = (uintptr_t)c.to | (uintptr_t)c.from;
    const size_t done = ends % 16 == 0  ? copy_some<struct sixteen>(c, first, step)
                        : ends % 4 == 0 ? copy_some<uint32_t>(c, first, step)
                                        : 0;
    c = { (char *)c.to + done, (const char *)c.from + done, c.bytes - done };
    copy_some<char>(c, first, step);
}

int zt_launch_copies(cudaStream_t stream, const struct zt_launch_copies *copies) {
    if (copies->count > 0)
        copies_kernel<<<(unsigned)(copies->count * COPY_BLOCKS), BLOCK, 0, stream>>>(*copies);
    return cudaGetLastError();
}

/* ---- many tensors in a launch ---- */

/* The last entry whose blocks begin at this one or before. */
static __device__ int entry_of(const unsigned *blocks, int count) {
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

/* ---- many casts ---- */

enum { CAST_ELEMENTS = 16 * BLOCK }; /* of a block */

static __global__ void casts_kernel(struct zt_launch_casts casts) {
    const int entry = entry_of(casts.blocks, casts.count);
    const struct zt_cast c = casts.at[entry];
    const float *from = (const float *)c.from;
    __nv_bfloat16 *to = (__nv_bfloat16 *)c.to;
    const int64_t first = (int64_t)(blockIdx.x - casts.blocks[entry]) * CAST_ELEMENTS;
    for (int64_t i = first + threadIdx.x; i < first + CAST_ELEMENTS && i < c.count; i += BLOCK)
        to[i] = __float2bfloat16_rn(from[i]);
}

int zt_launch_casts(cudaStream_t stream, struct zt_launch_casts *casts) {
    casts->blocks[0] = 0;
    for (int i = 0; i < casts->count; i++)
        casts->blocks[i + 1] = casts->blocks[i] + (unsigned)((casts->at[i].count + CAST_ELEMENTS - 1) / CAST_ELEMENTS);
    const unsigned blocks = casts->blocks[casts->count];
    if (blocks > 0)
        casts_kernel<<<blocks, BLOCK, 0, stream>>>(*casts);
    return cudaGetLastError();
}

/* ---- sums of squares ---- */

/* A block adds numbers i, i + BLOCK, ... of its slice; its threads' sums are added in a fixed tree. */
static __global__ void squares_kernel(struct zt_launch_squares x, double *parts) {
    __shared__ double room[BLOCK];
    const int entry = entry_of(x.blocks, x.count);
    const struct zt_floats f = x.at[entry];
    const int64_t first = (blockIdx.x - x.blocks[entry]) * x.slice;
    double sum = 0;
    for (int64_t i = first + threadIdx.x; i < first + x.slice && i < f.count; i += BLOCK)
        sum += (double)f.at[i] * (double)f.at[i];
    sum = add_block<BLOCK>(sum, room);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

static __global__ void add_parts_kernel(const double *parts, unsigned count, double *to) {
    __shared__ double room[BLOCK];
    double sum = 0;
    for (unsigned i = threadIdx.x; i < count; i += BLOCK)
        sum += parts[i];
    sum = add_block<BLOCK>(sum, room);
    if (threadIdx.x == 0)
        *to += sum;
}

int zt_launch_squares(cudaStream_t stream, struct zt_launch_squares *x, double *parts, double *sum) {
    int64_t all = 0;
    for (int i = 0; i < x->count; i++)
        all += x->at[i].count;
    x->slice = (all + ZT_SQUARE_PARTS - ZT_SQUARES - 1) / (ZT_SQUARE_PARTS - ZT_SQUARES);
    x->slice = x->slice < 4096 ? 4096 : x->slice;
    x->blocks[0] = 0;
    for (int i = 0; i < x->count; i++)
        x->blocks[i + 1] = x->blocks[i] + (unsigned)((x->at[i].count + x->slice - 1) / x->slice);
    const unsigned blocks = x->blocks[x->count];
    if (blocks == 0)
        return cudaSuccess;
    squares_kernel<<<blocks, BLOCK, 0, stream>>>(*x, parts);
    add_parts_kernel<<<1, BLOCK, 0, stream>>>(parts, blocks, sum);
    return cudaGetLastError();
}

/* ---- the state: one thread ---- */

static __global__ void add_loss_kernel(struct zt_step_state *state, const float *loss, const double *samples) {
    if (threadIdx.x == 0 && *samples > 0)
        state->loss += (double)*loss * *samples;
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
    if (threadIdx.x == 0)
        state->updates += state->finite;
}

int zt_launch_add_loss(cudaStream_t stream, struct zt_step_state *state, const float *loss, const double *samples) {
    add_loss_kernel<<<1, 32, 0, stream>>>(state, loss, samples);
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
