/* The sum of the partial results of blocks, in the order of the blocks at any thread count. */
#ifndef ZT_OPS_CPU_BLOCK_SUM_H
#define ZT_OPS_CPU_BLOCK_SUM_H

#include <stdint.h>

/* part[0..elems) += part[c * elems ..] for c = 1, 2, ..., count - 1, in this order. With one thread the calling thread
 * does it, so that a function that zt_parallel_for runs may call it. */
void zt_sum_blocks(float *part, int64_t elems, int64_t count, int threads);

#endif
