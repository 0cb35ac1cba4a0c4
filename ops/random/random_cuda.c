/* Ops that draw random numbers on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/random/launch_random.h"
#include "ops/random/random.h"

ZT_PREPARE_CUDA(draws, zt_launch_draws)
static bool draws_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_draws d = *(const struct zt_launch_draws *)call->state;
    d.drawing = zt_drawing_own(call);
    return zt_launched(call, zt_launch_draws(zt_stream_of(call), &d, zt_in_cuda(call, 0), zt_out_cuda(call, 0)), err);
}
ZT_KERNEL_CUDA(draws)

ZT_PREPARE_CUDA(dropout, zt_launch_dropout)
static bool dropout_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_dropout d = *(const struct zt_launch_dropout *)call->state;
    d.drawing = zt_drawing_of(call, zt_attr_text(call->node, "key", call->node->name));
    return zt_launched(
        call,
        zt_launch_dropout(zt_stream_of(call), &d, zt_in_cuda(call, 0), zt_out_cuda(call, 0), zt_out_cuda(call, 1).data),
        err);
}
ZT_KERNEL_CUDA(dropout)

static bool multinomial_prepare(struct zt_prepare *q, struct zt_err *err) {
    if (!zt_describe_cuda(q, sizeof(struct zt_launch_multinomial), err))
        return false;
    const struct zt_launch_multinomial *m = q->state;
    q->workspace_bytes = (size_t)(m->rows * m->classes) * sizeof(double);
    return true;
}
static bool multinomial_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_multinomial m = *(const struct zt_launch_multinomial *)call->state;
    m.drawing = zt_drawing_own(call);
    return zt_launched(
        call, zt_launch_multinomial(zt_stream_of(call), &m, zt_in_cuda(call, 0), zt_out_cuda(call, 0), call->workspace),
        err);
}
ZT_KERNEL_CUDA(multinomial)
