/* The frame of an optimizer's CUDA kernel: a block of threads takes one part of one piece, finds the coefficients of
 * the piece's group, and calls the formula of an element at each place. */
#ifndef ZT_OPTIM_STEP_CUH
#define ZT_OPTIM_STEP_CUH

#include "optim/step_cuda.h"

#include "base/block.cuh"

#include <cuda_runtime.h>
#include <string.h>

static unsigned blocks_of(const struct zt_step_call *s) {
    return (unsigned)(s->piece_count * ZT_STEP_PARTS);
}

/* The work of this block: `count` elements of its piece, from `first` on. */
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

/* The coefficients of this step for a group of parameters, in the struct of the optimizer. */
template <class Coefficients> static __device__ Coefficients coefficients_of(const struct zt_step_call &s, int group) {
    static_assert(sizeof(Coefficients) <= sizeof(union zt_coefficients), "the room for coefficients is too small");
    Coefficients c;
    memcpy(&c, &s.table[(s.state->updates - s.state->first) * s.groups + group], sizeof c);
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

/* Calls step(x) at each place of a part: 16 bytes of each array at a time where all arrays are aligned to 16. */
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

#endif
