/* Sizes as multiples of 64: a cache line, and the alignment of every block and of every tensor within one. */
#ifndef ZT_BASE_ALIGN_H
#define ZT_BASE_ALIGN_H

#include <stdint.h>

/* Rounds the non-negative integer `n` up to a multiple of 64. The result has the type of `n`. */
#define zt_align_64(n) (((n) + 63) / 64 * 64)

/* The number of floats that fill the cache lines of `n` floats. */
static inline int64_t zt_align_floats(int64_t n) {
    return (n + 15) / 16 * 16;
}

/* The greatest common divisor of a and b, not negative and not both 0. */
static inline int64_t zt_common_divisor(int64_t a, int64_t b) {
    return b ? zt_common_divisor(b, a % b) : a;
}

#endif
