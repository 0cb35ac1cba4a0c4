/* Sizes as multiples of 64: a cache line, and the alignment of every block and of every tensor within one. */
#ifndef ZT_BASE_ALIGN_H
#define ZT_BASE_ALIGN_H

/* Rounds the non-negative integer `n` up to a multiple of 64. The result has the type of `n`. */
#define zt_align_64(n) (((n) + 63) / 64 * 64)

#endif
