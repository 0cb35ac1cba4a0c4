/* Shared by the CPU kernels of convolutions: conv_cpu.c, and conv_pool_cpu.c, which fuses a pool. */
#ifndef ZT_OPS_CONV_CONV_CPU_H
#define ZT_OPS_CONV_CONV_CPU_H

#include "ops/cpu/batch_blocks.h"
#include "ops/conv/conv.h"
#include "ops/conv/simd/simd_conv.h"
#include "ops/cpu/gradient/planes.h"
#include "ops/cpu/winograd/tiles.h"

enum { ZT_CONV_X, ZT_CONV_W, ZT_CONV_B, ZT_CONV_Y }; /* slots of a convolution in dnnl.h */

/* What our own float kernels forwards and to x read and write. */
struct zt_conv_data {
    const float *from, *w;
    const float *bias, *added; /* of the result: a number a channel; a tensor in its layout; NULL: none */
    float *to;
    bool relu; /* to = max(to, 0), NaN stays */
    struct zt_planes from_planes, to_planes;
};

/* The division of x and y into blocks of `block` samples. */
struct zt_batch_cut zt_conv_cut(const struct zt_conv *c, int64_t block);

/* Whether oneDNN takes the sizes: 1 to 3 spatial axes, no empty tensor, 32-bit dims. */
bool zt_conv_fits(const struct zt_conv *c);
/* False where bfloat16 is not safe: oneDNN 2.6 crashes where a whole window is in the padding, and its 3-D weight
 * gradients are wrong in some cases. */
bool zt_conv_safe_in_half(const struct zt_window *w);
/* Whether all inputs of the node, bytes aside, are of one type that oneDNN computes with here: float, bfloat16. */
bool zt_conv_types(const struct zt_graph *g, int node);
/* The specification of the whole convolution; oneDNN chooses every layout, the caller sets kind and post-ops. */
struct zt_dnnl_spec zt_conv_spec(const struct zt_conv *c, enum zt_dtype dtype, bool bias);
/* The convolution of planes of dtype, float or bfloat16, for Winograd's filtering; false where that does not fit. */
bool zt_conv_winograd(const struct zt_conv *c, enum zt_dtype dtype, struct zt_winograd_conv *to);
/* The share of the convolution's work that its algorithm does: below 1 where Winograd's filtering is used. */
double zt_conv_share(const struct zt_conv *c, enum zt_dtype dtype, enum zt_conv_direction direction);
/* The convolution as our own kernels of weight gradients take it: in bfloat16 not of few results. */
struct zt_planes_forms zt_conv_forms(const struct zt_conv *c, enum zt_dtype dtype);
/* Bytes of a sample of the result, y or x, in a blocked layout. */
size_t zt_conv_result_bytes(const struct zt_conv *c, enum zt_conv_direction direction);
/* The layout that the primitive of the blocks wants in `slot`, for a graph value of this shape. */
const struct zt_layout *zt_conv_layout(struct zt_arena *arena, const struct zt_batch_blocks *blocks, int slot,
                                       const struct zt_shape *shape);

/* Our own kernel in place of the primitive, on the same blocks and layouts, for small convolutions: it sums in shorter
 * sequences, which round less, and decides ReLU's kinks and ties of pools more often as exact arithmetic does. Large
 * ones are oneDNN's, which on 512-bit units takes as little as half of the time. */
struct zt_conv_direct {
    zt_simd_conv_run *run; /* NULL: not taken */
    struct zt_simd_conv geometry;
    int vector;
    int64_t samples, total, out_blocks; /* of a whole block; of the batch; blocks of output channels */
};
/* Fills `to` where the convolution is small and our own kernel fits the layouts of the primitive of `blocks` (kind
 * CONV, `samples` per block); else false. */
bool zt_conv_direct_take(struct zt_conv_direct *to, const struct zt_batch_blocks *blocks, const struct zt_conv *c,
                         int64_t samples);
/* Runs one block. data: its slots; the bias may be NULL. */
void zt_conv_direct_run(const struct zt_conv_direct *d, int64_t block, void *const *data);

/* to[i] += from[i], which do not overlap. */
void zt_conv_add(const float *from, int64_t count, float *to);
/* Clears the unused channels of the last block of channels of `samples` samples, where there are any. */
void zt_conv_clear_padding(const struct zt_planes *planes, enum zt_dtype dtype, int64_t samples, char *y);
/* x += bias, a number a channel, for `samples` samples of these planes; both of dtype, float or bfloat16. */
void zt_conv_add_bias(enum zt_dtype dtype, const struct zt_planes *planes, int64_t samples, const void *bias, void *x);

/* Partial weight gradients: every block writes its own dw, in oneDNN's order, and db, in float,
 *
 *     [ dw of block 0 | 1 | ... | db of block 0 | 1 | ... ]
 *
 * The parts are then added in the order of the blocks, and dw is reordered to plain. */
struct zt_conv_partial {
    int64_t blocks, m;
    enum zt_dtype dtype;               /* of dw and db */
    size_t dw_bytes, db_bytes;         /* of one block, multiples of 64; db_bytes 0: no bias */
    struct zt_dnnl *plain, *plain_add; /* summed dw to plain order; the same, added to what is there */
};
/* The most blocks for a weight of this size, so that the partial sums stay small. */
int64_t zt_conv_pieces(const struct zt_conv *c);
/* weight: the blocks of a ZT_DNNL_CONV_WEIGHT; sets the steps of dw and db. Free with zt_conv_partial_finish. */
bool zt_conv_partial_make(struct zt_conv_partial *to, struct zt_batch_blocks *weight, int64_t m, enum zt_dtype dtype,
                          bool bias, struct zt_err *err);
void zt_conv_partial_finish(struct zt_conv_partial *partial);
/* Bytes of the partial sums, and scratch bytes of zt_conv_partial_sum. */
size_t zt_conv_partial_bytes(const struct zt_conv_partial *partial);
size_t zt_conv_partial_scratch(const struct zt_conv_partial *partial);
/* Gradients of weight and bias in plain order; NULL: not wanted. accumulate: dw is added to. */
struct zt_conv_gradients {
    void *dw, *db;
    bool accumulate;
};
/* Sums the partial sums at `parts` to dw and db. */
bool zt_conv_partial_sum(const struct zt_conv_partial *partial, void *parts, void *scratch,
                         const struct zt_conv_gradients *to, int threads, struct zt_err *err);

#endif
