/* The CUDA module's array of kernels by id. */
#ifndef ZT_OPS_CUDA_KERNELS_ARRAY_H
#define ZT_OPS_CUDA_KERNELS_ARRAY_H

#include "graph/ir/op.h"

extern const struct zt_kernel *const zt_kernels_cuda[];

#endif
