#include "optim/one_bit/one_bit_lamb.h"

#include "optim/step.cuh"

/* The coefficients of a tensor: those of its first piece. */
static __device__ struct zt_one_bit_lamb coefficients_of_tensor(const struct zt_step_call &s, int tensor) {
    int i = 0;
    while (i + 1 < s.piece_count && s.pieces[i].tensor != tensor)
        i++;
    return coefficients_of<struct zt_one_bit_lamb>(s, s.pieces[i].group);
}

static __global__ void one_bit_lamb_pack_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_one_bit_lamb c = coefficients_of<struct zt_one_bit_lamb>(s, p->group);
    const struct zt_trust t = s.trust[p->tensor];
    if (c.frozen)
        each_of<1>(part, { p->grad, p->state[0] }, [&](float *x) { x[0] = zt_one_bit_lamb_pack(&c, &t, x[0], x[1]); });
}

/* The norms of a part: those of struct zt_trust_norms but the count. */
static __global__ void one_bit_lamb_moments_kernel(struct zt_step_call s) {
    __shared__ double room[BLOCK];
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_one_bit_lamb c = coefficients_of<struct zt_one_bit_lamb>(s, p->group);
    const struct zt_trust t = s.trust[p->tensor];
    double sums[3] = { 0, 0, 0 }, most = 0;
    each_of<3>(part, { p->state[0], p->state[1], p->state[2], p->param, p->grad }, [&](float *x) {
        const struct zt_one_bit_lamb_terms terms = zt_one_bit_lamb_moments(&c, &t, x[3], x[4], &x[0], &x[1], &x[2]);
        sums[0] += (double)terms.weight * (double)terms.weight;
        sums[1] += (double)terms.direction * (double)terms.direction;
        sums[2] += (double)terms.moment * (double)terms.moment;
        most = (double)terms.quotient > most ? (double)terms.quotient : most;
    });
    double *to = s.parts + ZT_STEP_NORMS * blockIdx.x;
    for (int k = 0; k < 3; k++) {
        const double sum = add_block<BLOCK>(sums[k], room);
        if (threadIdx.x == 0)
            to[k] = sum;
    }
    most = fold_block<BLOCK>(most, room, [](double a, double b) { return a > b ? a : b; });
    if (threadIdx.x == 0)
        to[3] = most;
}

/* A block a tensor. */
static __global__ void one_bit_lamb_trust_kernel(struct zt_step_call s) {
    __shared__ double room[BLOCK];
    double sums[4] = { 0, 0, 0, 0 }, most = 0; /* the last one: elements */
    for (int i = (int)threadIdx.x; i < s.piece_count; i += BLOCK) {
        if (s.pieces[i].tensor != (int)blockIdx.x)
            continue;
        sums[3] += (double)s.pieces[i].count;
        for (int k = 0; k < ZT_STEP_PARTS; k++) {
            const double *from = s.parts + ZT_STEP_NORMS * (i * ZT_STEP_PARTS + k);
            for (int n = 0; n < 3; n++)
                sums[n] += from[n];
            most = from[3] > most ? from[3] : most;
        }
    }
    for (int k = 0; k < 4; k++)
        sums[k] = add_block<BLOCK>(sums[k], room);
    most = fold_block<BLOCK>(most, room, [](double a, double b) { return a > b ? a : b; });
    if (threadIdx.x != 0 || !s.state->finite)
        return;
    const struct zt_one_bit_lamb c = coefficients_of_tensor(s, (int)blockIdx.x);
    const struct zt_trust_norms norms = { sums[0], sums[1], sums[2], most, sums[3] };
    zt_one_bit_lamb_trust(&c, &norms, &s.trust[blockIdx.x]);
}

static __global__ void one_bit_lamb_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_one_bit_lamb c = coefficients_of<struct zt_one_bit_lamb>(s, p->group);
    const float rate = c.lr * s.trust[p->tensor].ratio;
    each_of<1>(part, { p->param, p->state[0], p->state[1] },
               [&](float *x) { zt_one_bit_lamb_apply(&c, rate, &x[0], x[1], x[2]); });
}

static int launch_pack(cudaStream_t stream, const struct zt_step_call *s) {
    one_bit_lamb_pack_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

static int launch_norms(cudaStream_t stream, const struct zt_step_call *s) {
    if (s->piece_count > 0) {
        one_bit_lamb_moments_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
        one_bit_lamb_trust_kernel<<<(unsigned)s->tensor_count, BLOCK, 0, stream>>>(*s);
    }
    return cudaGetLastError();
}

static int launch_one_bit_lamb(cudaStream_t stream, const struct zt_step_call *s) {
    one_bit_lamb_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_one_bit_lamb = {
    .update = launch_one_bit_lamb, .norms = launch_norms, .pack = launch_pack, .direct = NULL, .matrix = NULL
};
