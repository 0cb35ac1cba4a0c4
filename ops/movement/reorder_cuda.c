/* Reorder on CUDA: a strided copy from one layout to another. */
#include "ops/cuda/describe.h"
#include "ops/cuda/layout_cuda.h"

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    struct zt_launch_strided_copy *m = zt_malloc(sizeof *m);
    *m = zt_transposed_copy_cuda(&zt_in(p->graph, p->node, 0)->shape, p->in_layout[0], p->out_layout[0]);
    p->state = m;
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    int code = zt_launch_strided_copy(zt_stream_of(call), zt_dtype_bytes(call->in[0].dtype), call->state,
                                      call->in[0].data, call->out[0].data);
    return zt_launched(call, code, err);
}

const struct zt_kernel zt_kernel_reorder_cuda = {
    .prepare = prepare, .layouts = true, .rows = true, .run = run, .release = free
};
