/* The CPU kernels of batch normalisation on blocked activations, which the kernels of batch_norm_cpu.c prefer. */
#ifndef ZT_OPS_NORM_BATCH_NORM_BLOCKED_CPU_H
#define ZT_OPS_NORM_BATCH_NORM_BLOCKED_CPU_H

#include "ops/norm/kernels.h"

/* The nodes of zt_batch_norm_cpu and zt_batch_norm_grad_cpu (kernels.h) whose x is in channel blocks. */
ZT_CPU_KERNEL(zt_batch_norm_blocked)
ZT_CPU_KERNEL(zt_batch_norm_grad_blocked)

#endif
