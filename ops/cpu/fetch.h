/* Prefetching of rows that are copied. */
#ifndef ZT_OPS_CPU_FETCH_H
#define ZT_OPS_CPU_FETCH_H

#include <stdint.h>

/* For a row of `count` floats of a tensor that is read in order: fetches as many that lie 4 KB further. The processor
 * by itself stops at the end of each page. */
static inline void zt_fetch_ahead(const float *row, int64_t count) {
    enum { AHEAD = 1024, LINE = 16 };
    for (int64_t i = 0; i < count; i += LINE)
        __builtin_prefetch(row + AHEAD + i);
}

#endif
