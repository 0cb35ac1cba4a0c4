#include "optim/one_bit/zero_one_adam.h"

#include "optim/step.cuh"

static __global__ void zero_one_adam_pack_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_zero_one_adam c = coefficients_of<struct zt_zero_one_adam>(s, p->group);
    if (c.kind == ZT_ZERO_ONE_GRADIENT || c.kind == ZT_ZERO_ONE_SYNC)
        each_of<4>(part, { p->grad, p->param, p->state[0], p->state[2], p->state[1] },
                   [&](float *x) { x[0] = zt_zero_one_adam_pack(&c, &x[1], x[0], &x[2], x[4], &x[3]); });
}

static __global__ void zero_one_adam_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_zero_one_adam c = coefficients_of<struct zt_zero_one_adam>(s, p->group);
    each_of<4>(part, { p->param, p->state[0], p->state[1], p->state[2], p->grad },
               [&](float *x) { zt_zero_one_adam_step(&c, &x[0], x[4], &x[1], &x[2], &x[3]); });
}

static int launch_pack(cudaStream_t stream, const struct zt_step_call *s) {
    zero_one_adam_pack_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

static int launch_zero_one_adam(cudaStream_t stream, const struct zt_step_call *s) {
    zero_one_adam_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_zero_one_adam = {
    .update = launch_zero_one_adam, .norms = NULL, .pack = launch_pack, .direct = NULL, .matrix = NULL
};
