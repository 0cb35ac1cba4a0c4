/* Attention as a graph for cuDNN: the operations in the order that cuDNN recognises as flash attention (NVIDIA's
 * documentation of the graph API, "Fused Flash Attention fprop" and "bprop"), which stores no scores. Includes no
 * header of cuDNN, so that tests need no GPU.
 *
 * Forward, with s the scores; and backward, where a causal mask subtracts a large number from x:
 *
 *     x = scale q k^T    lse = max x + log sum exp(x - max x)    y = (exp(x - max x) / sum) v
 *     dot = sum(dy y)    p = exp(scale q k^T - lse)    dv = p^T dy    ds = scale p (dy v^T - dot)    dk = ds^T q
 *     dq = ds k */
#ifndef ZT_OPS_ATTENTION_ATTENTION_DNN_H
#define ZT_OPS_ATTENTION_ATTENTION_DNN_H

#include "ops/attention/attention.h"
#include "ops/cuda/dnn_cuda.h"

/* Numbers of the tensors of the graphs that are in memory. */
enum zt_flash {
    ZT_FLASH_Q,
    ZT_FLASH_K,
    ZT_FLASH_V,
    ZT_FLASH_Y,
    ZT_FLASH_LSE,   /* fp32 [batch, heads, queries] */
    ZT_FLASH_SCALE, /* numbers: the scale of the scores, and the number used as minus infinity by the causal mask */
    ZT_FLASH_HIDDEN,
    ZT_FLASH_FORWARD,
    ZT_FLASH_DY = ZT_FLASH_FORWARD, /* backward */
    ZT_FLASH_DQ,
    ZT_FLASH_DK,
    ZT_FLASH_DV,
    ZT_FLASH_DOT, /* fp32 [batch, heads, queries], for its own use */
    ZT_FLASH_ONE, /* a number: 1 */
    ZT_FLASH_TENSORS
};

/* NULL where the node can be such a graph, else the reason. It needs a half dtype, rows of whole 16 bytes, and no
 * mask but causality under which every query sees a key: cuDNN does not document rows that see none. */
const char *zt_flash_refusal(const struct zt_graph *g, int node, const struct zt_attention *a);

/* Writes the graph. The gradient has the same bits every time because ds is stored (2 bytes a score) and dq is one
 * product of it. */
void zt_flash_graph(const struct zt_attention *a, enum zt_dtype dtype, bool grad, struct zt_dnn_graph *to);

#endif
