/* Sizes as multiples of 64: a cache line, and the alignment of every block and of every tensor within one. */
#ifndef ZT_BASE_ALIGN_H
#define ZT_BASE_ALIGN_H

#include <stdint.h>

/* The least multiple of 64 that is not below `n`, which is not negative. */
static inline int64_t zt_align_64(int64_t n) {
    return (n + 63) / 64 * 64;
}

#endif
