/* The CUDA module's kernels by id (ops/cuda/cuda.h). */
#include "ops/cuda_kernels.h"

#include "ops/cuda/kernels.h"

#define KERNEL(id) extern const struct zt_kernel zt_kernel_##id##_cuda;
ZT_FAMILIES(ZT_CUDA_KERNELS_OF)
#undef KERNEL
#define KERNEL(id) &zt_kernel_##id##_cuda,
const struct zt_kernel *const zt_kernels_cuda[] = { ZT_FAMILIES(ZT_CUDA_KERNELS_OF) };
