/* UNROLLED before a loop over an array that must be registers: it unrolls at every optimisation level. */
#ifndef ZT_OPS_KERNEL_UNROLLED_H
#define ZT_OPS_KERNEL_UNROLLED_H

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 32")
#endif

#endif
