#include "optim/adam.h"

#include "optim/step.cuh"

static __global__ void adam_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_adam c = coefficients_of<struct zt_adam>(s, p->group);
    each_of<3>(part, { p->param, p->state[0], p->state[1], p->grad },
               [&](float *x) { zt_adam_step(&c, &x[0], x[3], &x[1], &x[2]); });
}

static int launch_adam(cudaStream_t stream, const struct zt_step_call *s) {
    adam_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_adam = {
    .update = launch_adam, .norms = NULL, .direct = NULL, .matrix = NULL
};
const struct zt_optimizer_cuda zt_optimizer_cuda_adamw = {
    .update = launch_adam, .norms = NULL, .direct = NULL, .matrix = NULL
};
