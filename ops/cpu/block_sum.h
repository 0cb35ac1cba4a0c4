/* Adding the partial results of chunks, in the order of the chunks whatever the thread count. */
#ifndef ZT_OPS_CPU_BLOCK_SUM_H
#define ZT_OPS_CPU_BLOCK_SUM_H

#include <stdint.h>

/* part[0..elems) += part[c * elems ..] for c = 1, 2, ..., count - 1, in this order. With one thread it is the calling
 * one's, which may be in the midst of a chunk. */
void zt_sum_blocks(float *part, int64_t elems, int64_t count, int threads);

#endif
