/* Attention: the geometry of a node, read from its shapes and attributes, and the reference kernels. The rows and the
 * kernels of all back ends use it.
 *
 * ztrain.PackedAttention, its training form and its gradient hold queries, keys and values of one size in one tensor
 * [batch, rows, (q_num_heads + 2 kv_num_heads) * size]: the heads of queries, then those of keys, then those of values.
 * The tensor is input ZT_Q, its gradient output ZT_DQ; ZT_K, ZT_V, ZT_DK and ZT_DV are omitted. */
#ifndef ZT_OPS_ATTENTION_ATTENTION_H
#define ZT_OPS_ATTENTION_ATTENTION_H

#include "graph/ir/op.h"

/* Inputs of Attention and, before the cotangents of its outputs, of ztrain.AttentionGrad. */
enum { ZT_Q, ZT_K, ZT_V, ZT_MASK, ZT_PAST_K, ZT_PAST_V, ZT_NONPAD, ZT_ATTENTION_INS };
enum { ZT_Y, ZT_PRESENT_K, ZT_PRESENT_V, ZT_QK, ZT_ATTENTION_OUTS };
/* Inputs of ztrain.AttentionGrad after the cotangents: the outputs of ztrain.AttentionTrain. */
enum { ZT_SAVED_Y = ZT_ATTENTION_INS + ZT_ATTENTION_OUTS, ZT_SAVED_STATISTICS, ZT_ATTENTION_GRAD_INS };
enum { ZT_DQ, ZT_DK, ZT_DV, ZT_DPAST_K, ZT_DPAST_V, ZT_DMASK, ZT_ATTENTION_GRADS };

/* Contents of the output QK (attribute qk_matmul_output_mode). */
enum zt_qk { ZT_QK_RAW, ZT_QK_CAPPED, ZT_QK_BIASED, ZT_QK_SOFTMAX };

/* Addressing of one tensor: the contiguous columns of (batch, head, row) begin at element first + b batch + h head + r
 * row. */
struct zt_heads {
    int64_t batch, head, row; /* steps */
    int64_t first;
    int tensor; /* of q, k, v: the input that holds them; the output of this number holds the gradient */
};

struct zt_attention {
    int64_t batch, heads, kv_heads;             /* heads: of queries, a multiple of kv_heads */
    int64_t queries, past, keys;                /* rows; keys include the past ones */
    int64_t size, v_size;                       /* columns of q and k, of v and y */
    struct zt_heads q, k, v, y, past_k, past_v; /* in elements */
    struct zt_shape y_shape, k_shape, v_shape;  /* k, v: of the present ones */
    int64_t mask_step[4], mask_length;          /* keys beyond mask_length are masked */
    double scale, softcap;                      /* softcap 0: none */
    bool causal;
    int64_t left, right; /* window, -1: unbounded */
    enum zt_qk qk;
};

/* Reads a node of any of these rows; shapes of inputs must be known. Errors name the node and the input that does not
 * fit: shapes, inputs that exclude each other, attributes out of range. */
bool zt_attention_read(const struct zt_graph *g, int node, struct zt_attention *to, struct zt_err *err);
/* Fails naming the value's shape and what is wanted. */
bool zt_attention_shape_fail(const struct zt_graph *g, int node, const struct zt_value *v, const char *wanted,
                             struct zt_err *err);

/* The keys [*from, *to) that query row i of a batch may attend to by causality, window, padding and the mask's length.
 */
void zt_attention_visible(const struct zt_call *call, const struct zt_attention *a, int64_t batch, int64_t i,
                          int64_t *from, int64_t *to);

extern const struct zt_op zt_op_attention, zt_op_packed_attention;
/* Rows of the training form, packed or not, and of the gradient. */
bool zt_attention_is_train(const struct zt_op *op);
bool zt_attention_is_grad(const struct zt_op *op);

/* The reference kernels, for every float dtype, in double; formulas and shapes are at the head of attention.c. The grad
 * kernels write those of the gradients that are asked for. `prepare` sets the workspace. */
bool zt_attention_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_attention_run(const struct zt_call *call, struct zt_err *err);
bool zt_attention_grad_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_attention_grad_run(const struct zt_call *call, struct zt_err *err);

#endif
