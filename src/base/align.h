/* Sizes as multiples of 64: a cache line, and the alignment of every block and of every tensor within one. */
#ifndef ZT_BASE_ALIGN_H
#define ZT_BASE_ALIGN_H

/* The least multiple of 64 that is not below `n`, in the type of `n`, which is an integer and not negative. */
#define zt_align_64(n) (((n) + 63) / 64 * 64)

#endif
