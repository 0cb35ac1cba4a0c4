#include "base/rng.h"

void zt_rng_block(uint64_t key, uint64_t stream, uint64_t counter, uint32_t out[4]) {
    zt_rng_words(key, stream, counter, out);
}

struct zt_rng zt_rng_start(uint64_t key, uint64_t stream) {
    return (struct zt_rng){ .key = key, .stream = stream };
}

uint32_t zt_rng_u32(struct zt_rng *rng) {
    if (rng->left == 0) {
        zt_rng_block(rng->key, rng->stream, rng->counter++, rng->block);
        rng->left = 4;
    }
    return rng->block[4 - rng->left--];
}

uint64_t zt_rng_below(struct zt_rng *rng, uint64_t n) {
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x;
    do {
        x = (uint64_t)zt_rng_u32(rng) << 32;
        x |= zt_rng_u32(rng);
    } while (x >= limit);
    return x % n;
}

float zt_rng_uniform(struct zt_rng *rng) {
    return (float)(zt_rng_u32(rng) >> 8) * 0x1p-24f;
}
