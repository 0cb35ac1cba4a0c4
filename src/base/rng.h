/* Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 * The same key and counter give the same number on any rank, thread and machine. */
#ifndef ZT_BASE_RNG_H
#define ZT_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct zt_rng {
    uint64_t key;     /* from zt_rng_key */
    uint64_t counter; /* next block */
    uint64_t stream;  /* upper half of the counter: sample, step, ... */
    uint32_t block[4];
    int left; /* unused words of `block` */
};

/* Returns a generator at the start of stream `stream` of `key`. */
struct zt_rng zt_rng_start(uint64_t key, uint64_t stream);
uint32_t zt_rng_u32(struct zt_rng *rng);
uint64_t zt_rng_below(struct zt_rng *rng, uint64_t n); /* uniform in 0..n-1, n > 0 */
float zt_rng_uniform(struct zt_rng *rng);              /* in [0, 1), 24 bits */
/* Computes the four words of block `counter`. */
void zt_rng_block(uint64_t key, uint64_t stream, uint64_t counter, uint32_t out[4]);

/* ---- for single elements, shared by rng.c and the kernels of the CUDA module ---- */

#ifdef __CUDACC__
#define ZT_RNG static __device__ inline
#else
#define ZT_RNG static inline
#endif

/* The position in a run. Together with the node name and the element index it determines the numbers of random
 * operators. */
struct zt_random {
    uint64_t seed, step, micro_batch, first_sample;
};

/* The source of a node's random numbers: the hash `name` of the node's name, its attribute `seed` (if `seeded`), and
 * the position in the run, either `here` or in device memory at `there`. */
struct zt_drawing {
    uint64_t name, seed;
    bool seeded;
    struct zt_random here;
    const struct zt_random *there; /* NULL: here */
};
/* Numbers of a tensor whose first axis counts samples; each sample has its own stream. */
struct zt_draws {
    uint64_t key, first_sample; /* of row 0 */
};

ZT_RNG uint64_t zt_rng_mix(uint64_t x) { /* the finaliser of splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
/* Mixes a seed with up to three numbers that identify the stream. */
ZT_RNG uint64_t zt_rng_key(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
    return zt_rng_mix(zt_rng_mix(zt_rng_mix(zt_rng_mix(seed) ^ a) ^ b) ^ c);
}

ZT_RNG struct zt_draws zt_rng_draws(const struct zt_drawing *d) {
    const struct zt_random at = d->there ? *d->there : d->here;
    const uint64_t key = zt_rng_key(at.seed, at.step, at.micro_batch, d->name);
    const struct zt_draws draws = { d->seeded ? zt_rng_key(key, d->seed, 1, 0) : key, at.first_sample };
    return draws;
}

/* The four words of block `counter` of stream `stream`. */
ZT_RNG void zt_rng_words(uint64_t key, uint64_t stream, uint64_t counter, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
