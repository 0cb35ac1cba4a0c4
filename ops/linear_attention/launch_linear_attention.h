/* Launchers of linear_attention.cu: LinearAttention (ops/linear_attention/linear_attention.c) and its gradient.
 * Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_LINEAR_ATTENTION_LAUNCH_LINEAR_ATTENTION_H
#define ZT_OPS_LINEAR_ATTENTION_LAUNCH_LINEAR_ATTENTION_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The geometry of a node (zt_linear_attention_read of linear.h). Heads of q, k, v, y, decay and beta are adjacent in a
 * row of (batch, step). */
struct zt_launch_linear {
    int64_t batch, steps;
    int64_t heads, kv_heads; /* heads: of queries, a multiple of kv_heads */
    int64_t size, v_size;    /* columns of a head of q and k, and of v and y: the state is [size, v_size] */
    int64_t chunk;           /* backward: a state is kept every `chunk` steps, the others are computed again */
    double scale;
    bool gated, delta;
    bool by_key;   /* gated: a decay for each column of k, else one a head */
    bool one_beta; /* delta: one beta for all heads, else one a head */
};

/* The columns of a state that a block takes at a time, and the most rows. */
enum { ZT_LINEAR_COLUMNS = 32, ZT_LINEAR_MOST_ROWS = 512 };

/* present may be absent. past absent: zeros. */
struct zt_launch_linear_tensors {
    struct zt_launch_tensor q, k, v, past, decay, beta, y, present;
};
int zt_launch_linear_attention(struct CUstream_st *stream, const struct zt_launch_linear *l,
                               const struct zt_launch_linear_tensors *t);

/* dy and dpresent absent: zeros; every output may be absent. dbeta is [batch, steps, kv_heads], with one_beta too.
 * The workspace has zt_launch_linear_attention_floats(l) floats. */
struct zt_launch_linear_grad {
    struct zt_launch_tensor q, k, v, past, decay, beta, dy, dpresent;
    struct zt_launch_tensor dq, dk, dv, dpast, ddecay, dbeta;
    float *workspace;
};
int64_t zt_launch_linear_attention_floats(const struct zt_launch_linear *l);
int zt_launch_linear_attention_grad(struct CUstream_st *stream, const struct zt_launch_linear *l,
                                    const struct zt_launch_linear_grad *g);

#ifdef __cplusplus
}
#endif

#endif
