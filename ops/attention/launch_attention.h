/* Launchers of attention.cu: the softmax of attention between its two products. Names as in ops/attention/attention.h.
 * Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_ATTENTION_LAUNCH_ATTENTION_H
#define ZT_OPS_ATTENTION_LAUNCH_ATTENTION_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scores s = q k^T of one batch entry, [heads, queries, keys]: query head `member` of each of `heads` groups, the first
 * group being `first`. */
struct zt_launch_attention {
    enum zt_dtype dtype;      /* of p, ds and dmask */
    enum zt_dtype mask_dtype; /* also ZT_BOOL */
    int64_t batch, first, member, group, heads, all_heads, queries, keys;
    int64_t mask_step[4], mask_length, left, right;
    bool causal;
    float scale, softcap;
    const void *mask;      /* NULL: none */
    const int64_t *nonpad; /* number of keys of each batch entry; NULL: all */
    float *statistics;     /* saved [batches, all_heads, 2, queries]: largest score, 1 / sum; NULL: not saved */
};
/* p = softmax of the scores; writes `statistics`. Float p may overwrite the scores. */
int zt_launch_attention(struct CUstream_st *stream, const struct zt_launch_attention *attention, const float *scores,
                        void *p);
/* dmask [batches, all_heads, queries, mask_length] may be NULL. */
struct zt_launch_attention_grad {
    const float *scores, *dp;
    void *p, *ds, *dmask;
};
/* Computes p again, from `statistics` where they are saved; and ds, scale times the gradient of the scores. Float p and
 * ds may overwrite scores and dp. */
int zt_launch_attention_grad(struct CUstream_st *stream, const struct zt_launch_attention *attention,
                             const struct zt_launch_attention_grad *grad);

/* Saved statistics [rows, 2, queries] are a number m and a factor f of each query with p = exp(score - m) f. lse
 * [rows, queries] is log(sum(exp(score))). rows: batches * all_heads. */
struct zt_launch_softmax_rows {
    int64_t rows, queries;
};
int zt_launch_statistics_of_lse(struct CUstream_st *stream, const struct zt_launch_softmax_rows *rows, const float *lse,
                                float *statistics);
int zt_launch_lse_of_statistics(struct CUstream_st *stream, const struct zt_launch_softmax_rows *rows,
                                const float *statistics, float *lse);

#ifdef __cplusplus
}
#endif

#endif
