/* Outputs of the gradient kernels of this family on CUDA. */
#ifndef ZT_OPS_LINEAR_ATTENTION_GRADIENT_OUTPUTS_CUDA_H
#define ZT_OPS_LINEAR_ATTENTION_GRADIENT_OUTPUTS_CUDA_H

#include "ops/cuda/describe.h"

/* Output i, the gradient of input i; absent where the input is, whose output has no elements. */
static inline struct zt_launch_tensor zt_given_cuda(const struct zt_call *call, int i) {
    return zt_in_cuda(call, i).data ? zt_out_cuda(call, i) : (struct zt_launch_tensor){ ZT_FLOAT, NULL };
}

#endif
