/* The ids of the CUDA kernels, for the rows of the program (ops/cuda/cuda.h). */
#include "ops/cuda_kernels.h"

#define KERNEL(id) AT_##id,
enum { ZT_FAMILIES(ZT_CUDA_KERNELS_OF) KERNEL_COUNT };
#undef KERNEL
#define KERNEL(id) const int zt_cuda_id_##id = AT_##id;
ZT_FAMILIES(ZT_CUDA_KERNELS_OF)
