#include "optim/lion.h"

#include "optim/step.cuh"

static __global__ void lion_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_lion c = coefficients_of<struct zt_lion>(s, p->group);
    each_of<2>(part, { p->param, p->state[0], p->grad }, [&](float *x) { zt_lion_step(&c, &x[0], x[2], &x[1]); });
}

static int launch_lion(cudaStream_t stream, const struct zt_step_call *s) {
    lion_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_lion = {
    .update = launch_lion, .norms = NULL, .direct = NULL, .matrix = NULL
};
