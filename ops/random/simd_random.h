/* Vector loops of Dropout (dropout.c) on rows of floats. Compiled for several instruction sets. */
#ifndef ZT_OPS_RANDOM_SIMD_RANDOM_H
#define ZT_OPS_RANDOM_SIMD_RANDOM_H

#include <stdint.h>

/* A stretch of a row, whose first element begins block `counter` of the generator (base/rng.h): four numbers a block.
 * An element is kept where its word is not below `least`. */
struct zt_simd_drop {
    uint64_t key, stream, counter;
    uint32_t least;
    float scale; /* of what is kept */
    int64_t count;
    const float *x;
    float *y;
    uint8_t *mask; /* 1: kept; NULL: not stored */
};

struct zt_simd_random {
    void (*drop)(const struct zt_simd_drop *d);
    /* dx = dy * scale where the mask is not 0, else 0 */
    void (*drop_back)(int64_t count, const float *dy, const uint8_t *mask, float scale, float *dx);
};
/* The loops for the widest vectors of this machine. */
const struct zt_simd_random *zt_simd_random(void);

#endif
