#include "optim/one_bit/one_bit_adam.h"

#include "optim/step.cuh"

static __global__ void one_bit_adam_pack_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_one_bit_adam c = coefficients_of<struct zt_one_bit_adam>(s, p->group);
    if (c.frozen)
        each_of<1>(part, { p->grad, p->state[0] }, [&](float *x) { x[0] = zt_one_bit_adam_pack(&c, x[0], x[1]); });
}

static __global__ void one_bit_adam_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_one_bit_adam c = coefficients_of<struct zt_one_bit_adam>(s, p->group);
    each_of<3>(part, { p->param, p->state[0], p->state[1], p->grad },
               [&](float *x) { zt_one_bit_adam_step(&c, &x[0], x[3], &x[1], &x[2]); });
}

static int launch_pack(cudaStream_t stream, const struct zt_step_call *s) {
    one_bit_adam_pack_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

static int launch_one_bit_adam(cudaStream_t stream, const struct zt_step_call *s) {
    one_bit_adam_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_one_bit_adam = {
    .update = launch_one_bit_adam, .norms = NULL, .pack = launch_pack, .direct = NULL, .matrix = NULL
};
