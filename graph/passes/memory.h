/* Memory planning: offsets in one block for buffers with known lifetimes. */
#ifndef ZT_GRAPH_PASSES_MEMORY_H
#define ZT_GRAPH_PASSES_MEMORY_H

#include <stdint.h>

/* A buffer and its lifetime in program positions. */
struct zt_interval {
    int64_t bytes;
    int first, last; /* inclusive */
    int64_t offset;  /* in bytes, a multiple of 64; set by zt_memory_plan */
};

/* Sets offsets such that no two buffers with overlapping lifetimes overlap, and returns the size of the block in bytes.
 * Places large buffers first, each at the lowest free offset. */
int64_t zt_memory_plan(struct zt_interval *at, int count);

#endif
