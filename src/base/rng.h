/* Random numbers that are a function of what they are for, not of what was drawn before: Philox 4x32-10
 * (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The same key and counter give the same
 * number on any rank, thread and machine. */
#ifndef ZT_BASE_RNG_H
#define ZT_BASE_RNG_H

#include <stdint.h>

struct zt_rng {
    uint64_t key;     /* from zt_rng_key */
    uint64_t counter; /* next block */
    uint64_t stream;  /* upper half of the counter: sample, step, ... */
    uint32_t block[4];
    int left; /* unused words of `block` */
};

/* Mixes a seed with up to three numbers that say what the stream is for. */
uint64_t zt_rng_key(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
/* A generator at the start of stream `stream` of `key`. */
struct zt_rng zt_rng_start(uint64_t key, uint64_t stream);
uint32_t zt_rng_u32(struct zt_rng *rng);
uint64_t zt_rng_below(struct zt_rng *rng, uint64_t n); /* uniform in 0..n-1, n > 0 */
float zt_rng_uniform(struct zt_rng *rng);              /* in [0, 1), 24 bits */
float zt_rng_normal(struct zt_rng *rng);               /* Box-Muller, one of the pair */
/* The four words of block `counter`. */
void zt_rng_block(uint64_t key, uint64_t stream, uint64_t counter, uint32_t out[4]);

#endif
