/* oneDNN's kernel of a matrix product, which matmul_cpu.c chooses where it is the better one. */
#ifndef ZT_OPS_MATMUL_MATMUL_DNNL_CPU_H
#define ZT_OPS_MATMUL_MATMUL_DNNL_CPU_H

#include "ops/matmul/kernels.h"

ZT_CPU_KERNEL(zt_matmul_dnnl)

#endif
