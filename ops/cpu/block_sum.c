#include "ops/cpu/block_sum.h"

#include "device/threads.h"

enum { BLOCK = 4096 }; /* elements: the sum of a block stays in the first cache */

struct job {
    float *part;
    int64_t elems, count;
};

static void sum_block(void *arg, int64_t block) {
    const struct job *job = arg;
    float *restrict to = job->part + block * BLOCK;
    int64_t left = job->elems - block * BLOCK, n = left < BLOCK ? left : BLOCK;
    for (int64_t c = 1; c < job->count; c++) {
        const float *restrict from = to + c * job->elems;
        for (int64_t i = 0; i < n; i++)
            to[i] += from[i];
    }
}

void zt_sum_blocks(float *part, int64_t elems, int64_t count, int threads) {
    struct job job = { part, elems, count };
    zt_parallel_for(threads, (elems + BLOCK - 1) / BLOCK, sum_block, &job);
}
