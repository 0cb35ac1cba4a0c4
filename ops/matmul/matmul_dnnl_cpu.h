/* oneDNN's kernel of a matrix product, which matmul_cpu.c prefers where it is faster. */
#ifndef ZT_OPS_MATMUL_MATMUL_DNNL_CPU_H
#define ZT_OPS_MATMUL_MATMUL_DNNL_CPU_H

#include "ops/matmul/kernels.h"

/* The same nodes as zt_matmul_cpu (kernels.h); `supports` is true where oneDNN has a primitive for the types. */
ZT_CPU_KERNEL(zt_matmul_dnnl)

#endif
