/* The kernels of the CUDA module by operator: one line each. */
#include "ops/kernels_cuda.h"

const struct zt_module_kernel zt_kernels_cuda[] = {
    { "", "Add", &zt_kernel_add_cuda },
    { "", "Cast", &zt_kernel_cast_cuda },
    { "", "Gemm", &zt_kernel_matmul_cuda },
    { "", "MatMul", &zt_kernel_matmul_cuda },
    { "", "ReduceSum", &zt_kernel_reduce_sum_cuda },
    { "", "Relu", &zt_kernel_relu_cuda },
    { "ztrain", "BatchMatMul", &zt_kernel_matmul_cuda },
    { "ztrain", "CrossEntropy", &zt_kernel_cross_entropy_cuda },
    { "ztrain", "CrossEntropyGrad", &zt_kernel_cross_entropy_grad_cuda },
    { "ztrain", "ReluGrad", &zt_kernel_relu_grad_cuda },
    { 0 },
};
