#include "optim/sgd.h"

#include "optim/step.cuh"

static __global__ void sgd_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_sgd c = coefficients_of<struct zt_sgd>(s, p->group);
    if (c.buffered)
        each_of<2>(part, { p->param, p->state[0], p->grad },
                   [&](float *x) { zt_sgd_momentum_step(&c, &x[0], x[2], &x[1]); });
    else
        each_of<1>(part, { p->param, p->grad }, [&](float *x) { zt_sgd_step(&c, &x[0], x[1]); });
}

static int launch_sgd(cudaStream_t stream, const struct zt_step_call *s) {
    sgd_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_sgd = {
    .update = launch_sgd, .norms = NULL, .direct = NULL, .matrix = NULL
};
