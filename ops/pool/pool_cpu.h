/* A window as our own pooling kernels take it. */
#ifndef ZT_OPS_POOL_POOL_CPU_H
#define ZT_OPS_POOL_POOL_CPU_H

#include "ops/pool/simd_pool.h"
#include "ops/kernel/window.h"

/* At most ZT_POOL_AXES axes; `pixel` and `wide` are left to the caller. */
struct zt_simd_pool zt_simd_pool_of(const struct zt_window *w);

#endif
