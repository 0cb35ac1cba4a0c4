/* The kernels of the CUDA module by operator, from the list in cuda.h. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/kernels.h"

#define ROW(domain, name, id) { domain, name, &zt_kernel_##id##_cuda },

const struct zt_module_kernel zt_kernels_cuda[] = { ZT_CUDA_OPS(ROW){ 0 } };
