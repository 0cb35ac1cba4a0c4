/* The arguments of the kernels of a compressed all-reduce (compressed.h), and the formulas that host and CUDA compile:
 * + - * / and sqrt of IEEE 754 alone, never contracted. */
#ifndef ZT_PARALLEL_COMM_COMPRESSED_CALL_H
#define ZT_PARALLEL_COMM_COMPRESSED_CALL_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ZT_COMPRESSED static __device__ inline
#else
#define ZT_COMPRESSED static inline
#endif

/* A norm's squares are summed by blocks of ZT_COMPRESSED_BLOCK elements. Element i of a block is added to lane i mod
 * ZT_COMPRESSED_LANES; the lanes are added in a tree, lane k and lane k + half. The sums of blocks are added alike. */
enum { ZT_COMPRESSED_BLOCK = 4096, ZT_COMPRESSED_LANES = 256 };

enum zt_compressed_side { ZT_WORKER, ZT_SERVER, ZT_COMPRESSED_SIDES };

struct zt_compressed_part {
    int64_t first, count;                                            /* elements of x */
    int64_t padded;                                                  /* with the filling */
    int64_t chunk;                                                   /* elements of a server: padded / ranks */
    int64_t error_at[ZT_COMPRESSED_SIDES];                           /* first element among the errors */
    int64_t signs_at;                                                /* bytes of a message before its signs */
    int64_t block[ZT_COMPRESSED_SIDES], blocks[ZT_COMPRESSED_SIDES]; /* first block, and how many */
};
/* At most ZT_COMPRESSED_BLOCK elements of a part (worker) or of its chunk (server), from `first` on. */
struct zt_compressed_block {
    int64_t first;
    int part, count;
};

struct zt_compressed {
    int ranks, part_count;
    int64_t errors[ZT_COMPRESSED_SIDES]; /* elements of the error buffers */
    int64_t blocks[ZT_COMPRESSED_SIDES];
    int64_t message_bytes; /* between two ranks, in each exchange; a multiple of 4 */
    const struct zt_compressed_part *parts;
    const struct zt_compressed_block *block[ZT_COMPRESSED_SIDES];
};

struct zt_compressed_call {
    struct zt_compressed layout; /* its tables in the memory of the device */
    int rank;
    float *x;                          /* in: this rank's vector; out: the mean */
    float *error[ZT_COMPRESSED_SIDES]; /* of the caller, zero at first; they carry over to the next call */
    unsigned char *out, *in;           /* [ranks][message_bytes]; `out` then has what is gathered */
    double *sums;                      /* by block */
    float *scale;                      /* by part */
};

/* The kernels between the exchanges: worker and server run compress and pack, then all ranks expand. */
enum zt_compressed_stage { ZT_COMPRESS_WORKER, ZT_COMPRESS_SERVER, ZT_COMPRESSED_EXPAND };

ZT_COMPRESSED float zt_compressed_scale(double squares, int64_t count) {
    return (float)sqrt(squares / (double)count);
}
ZT_COMPRESSED float zt_compressed_signed(float scale, int positive) {
    return positive ? scale : -scale;
}
/* The message for or from rank `rank` in a buffer of one message per rank, and the scales at its start. */
ZT_COMPRESSED unsigned char *zt_compressed_message(const struct zt_compressed_call *c, unsigned char *messages,
                                                   int64_t rank) {
    return messages + rank * c->layout.message_bytes;
}
ZT_COMPRESSED float *zt_compressed_scales(const struct zt_compressed_call *c, unsigned char *messages, int64_t rank) {
    return (float *)(void *)zt_compressed_message(c, messages, rank);
}
/* The byte of eight signs: element i of part p, a multiple of 8, in the messages by chunk. */
ZT_COMPRESSED unsigned char *zt_compressed_byte(const struct zt_compressed_call *c, const struct zt_compressed_part *p,
                                                unsigned char *messages, int64_t i) {
    return zt_compressed_message(c, messages, i / p->chunk) + p->signs_at + i % p->chunk / 8;
}
#endif
