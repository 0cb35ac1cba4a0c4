/* A kernel whose last blocks finish a sum, for test_last_block.c. */
#ifndef ZT_TESTS_OPS_CUDA_LAST_BLOCK_H
#define ZT_TESTS_OPS_CUDA_LAST_BLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* The sum of width * height * each numbers by a grid of width x height blocks. */
struct last_block {
    int64_t width, height, each;
    const double *from;
    double *parts, *rows, *sum; /* by block, by row of blocks, of all */
    int *lasts;                 /* by row: which of its blocks came last */
    unsigned *arrived;          /* 1 + height counters */
};
int launch_last_block(struct CUstream_st *stream, const struct last_block *x);

#ifdef __cplusplus
}
#endif

#endif
