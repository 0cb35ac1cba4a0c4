/* Standard normal numbers by the method of Box and Muller, both of each pair. */
#ifndef ZT_TESTS_NORMAL_H
#define ZT_TESTS_NORMAL_H

#include "base/rng.h"

#include <math.h>
#include <stdbool.h>

struct normal {
    struct zt_rng rng;
    float second;
    bool has_second;
};

static inline struct normal normal_start(uint64_t key, uint64_t stream) {
    return (struct normal){ .rng = zt_rng_start(key, stream) };
}

static inline float normal_next(struct normal *n) {
    if (n->has_second) {
        n->has_second = false;
        return n->second;
    }
    const float u = ((float)zt_rng_u32(&n->rng) + 1) * 0x1p-32F, v = (float)zt_rng_u32(&n->rng) * 0x1p-32F;
    const float length = sqrtf(-2 * logf(u)), angle = 6.2831853F * v;
    n->second = length * sinf(angle);
    n->has_second = true;
    return length * cosf(angle);
}

#endif
