#include "optim/rmsprop.h"

#include "optim/step.cuh"

static __global__ void rmsprop_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_rmsprop c = coefficients_of<struct zt_rmsprop>(s, p->group);
    if (c.centered && c.buffered)
        each_of<4>(part, { p->param, p->state[0], p->state[1], p->state[2], p->grad },
                   [&](float *x) { zt_rmsprop_momentum_step(&c, &x[0], x[4], &x[1], &x[2], &x[3]); });
    else if (c.centered)
        each_of<3>(part, { p->param, p->state[0], p->state[1], p->grad },
                   [&](float *x) { zt_rmsprop_step(&c, &x[0], x[3], &x[1], &x[2]); });
    else if (c.buffered)
        each_of<3>(part, { p->param, p->state[0], p->state[1], p->grad },
                   [&](float *x) { zt_rmsprop_momentum_step(&c, &x[0], x[3], &x[1], NULL, &x[2]); });
    else
        each_of<2>(part, { p->param, p->state[0], p->grad },
                   [&](float *x) { zt_rmsprop_step(&c, &x[0], x[2], &x[1], NULL); });
}

static int launch_rmsprop(cudaStream_t stream, const struct zt_step_call *s) {
    rmsprop_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_rmsprop = {
    .update = launch_rmsprop, .norms = NULL, .direct = NULL, .matrix = NULL
};
