#include "optim/adagrad.h"

#include "optim/step.cuh"

static __global__ void adagrad_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_adagrad c = coefficients_of<struct zt_adagrad>(s, p->group);
    each_of<2>(part, { p->param, p->state[0], p->grad }, [&](float *x) { zt_adagrad_step(&c, &x[0], x[2], &x[1]); });
}

static int launch_adagrad(cudaStream_t stream, const struct zt_step_call *s) {
    adagrad_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_adagrad = {
    .update = launch_adagrad, .norms = NULL, .direct = NULL, .matrix = NULL
};
