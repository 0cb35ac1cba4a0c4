#include "optim/lamb.h"

#include "optim/step.cuh"

static __global__ void lamb_moments_kernel(struct zt_step_call s) {
    __shared__ double room[BLOCK];
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_lamb c = coefficients_of<struct zt_lamb>(s, p->group);
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
    const struct zt_lamb c =
        coefficients_of<struct zt_lamb>(s, 0); /* the limits of the ratio are those of all groups */
    for (int k = 0; k < 2; k++)
        s.norms[2 * blockIdx.x + k] = norms[k];
    s.ratios[blockIdx.x] = zt_lamb_ratio(&c, norms);
}

static __global__ void lamb_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_lamb c = coefficients_of<struct zt_lamb>(s, p->group);
    const float lr = (float)(c.rate * s.ratios[p->tensor]);
    each_of<1>(part, { p->param, p->state[0], p->state[1] },
               [&](float *x) { zt_lamb_apply(&c, lr, &x[0], x[1], x[2]); });
}

static int launch_norms(cudaStream_t stream, const struct zt_step_call *s) {
    if (s->piece_count > 0)
        lamb_moments_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    if (s->tensor_count > 0)
        lamb_norms_kernel<<<(unsigned)s->tensor_count, BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

static int launch_lamb(cudaStream_t stream, const struct zt_step_call *s) {
    lamb_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_lamb = {
    .update = launch_lamb, .norms = launch_norms, .direct = NULL, .matrix = NULL
};
