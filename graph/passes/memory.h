/* Memory planning: offsets for things that live from one position of a program to another. */
#ifndef ZT_GRAPH_PASSES_MEMORY_H
#define ZT_GRAPH_PASSES_MEMORY_H

#include <stdint.h>

/* Lives at positions first..last, both inclusive. */
struct zt_interval {
    int64_t bytes;
    int first, last;
    int64_t offset; /* set by the plan, a multiple of 64 */
};

/* Gives every interval an offset such that no two that live at the same time overlap; returns the size of the block.
 * Big ones are placed first, each at the lowest free offset. */
int64_t zt_memory_plan(struct zt_interval *at, int count);

#endif
