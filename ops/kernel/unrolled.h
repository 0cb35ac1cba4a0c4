/* UNROLLED before a loop over an array that must be registers: it unrolls at every optimisation level. NOT_UNROLLED
 * before one that no level may unroll. */
#ifndef ZT_OPS_KERNEL_UNROLLED_H
#define ZT_OPS_KERNEL_UNROLLED_H

#if defined(__clang__)
#define UNROLLED     _Pragma("clang loop unroll(full)")
#define NOT_UNROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLLED     _Pragma("GCC unroll 32")
#define NOT_UNROLLED _Pragma("GCC unroll 1")
#endif

#endif
