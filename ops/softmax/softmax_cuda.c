/* Softmax, LogSoftmax, Hardmax and their gradients on CUDA. */
#include "ops/cuda/describe.h"
#include "ops/softmax/launch_softmax.h"

ZT_PREPARE_CUDA(softmax, zt_launch_softmax)
static bool softmax_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(call,
                       zt_launch_softmax(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_in_cuda(call, 1),
                                         zt_out_cuda(call, 0)),
                       err);
}
ZT_KERNEL_CUDA(softmax)
