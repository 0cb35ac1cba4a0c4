/* Attention (opset 23 on), for every batch and head of queries:
 *
 *     s = scale q k^T                  c = softcap tanh(s / softcap), or s
 *     x = c + bias                     p = softmax(x), 0 where the whole row is masked          y = p v
 *
 * k and v are the past ones followed by the given ones. The bias of query i and key j is the mask's, and -infinity
 * where a boolean mask is false, beyond a mask that is shorter than the keys, from key nonpad on, and outside the
 * window around place i + offset (j <= i + offset if causal), with offset = past rows, or nonpad - queries. Query heads
 * share key heads in groups.
 *
 * Backwards, from dy and the cotangent g of the output QK, which is s, c, x or p:
 *
 *     dp = dy v^T (+ g)      dx = p (dp - sum p dp) (+ g)      dc = dx (+ g)      ds = dc (1 - (c / softcap)^2) (+ g)
 *     dq = scale ds k        dk = scale ds^T q                 dv = p^T dy        dbias = dx */
#include "ops/attention/attention.h"
#include "ops/attention/kernels.h"

#include "ops/kernel/shape.h"
#include "ops/kernel/training_form.h"

/* Whether nothing but y is asked of a forward node, and nothing but y's gradient given to AttentionGrad. */
static bool is_y_alone(const struct zt_graph *g, int node, bool grad) {
    bool alone = !grad || zt_in(g, node, ZT_ATTENTION_INS + ZT_Y);
    for (int i = ZT_PRESENT_K; i < ZT_ATTENTION_OUTS; i++)
        alone &= grad ? !zt_in(g, node, ZT_ATTENTION_INS + i)
                      : !zt_out(g, node, i) || zt_attention_is_train(g->nodes[node]->op);
    return alone;
}

/* Whether the CUDA kernels take the node: float or half types, a mask of these or bool, no past keys, y the only
 * output. */
static bool takes_cuda(const struct zt_graph *g, int node) {
    const struct zt_value *q = zt_in(g, node, ZT_Q), *mask = zt_in(g, node, ZT_MASK);
    const bool grad = zt_attention_is_grad(g->nodes[node]->op);
    struct zt_attention a;
    struct zt_err err = { 0 };
    for (int i = ZT_Q; i <= ZT_V; i++)
        if (zt_in(g, node, i) && (!zt_cuda_is_float(zt_in(g, node, i)) || zt_in(g, node, i)->dtype != q->dtype))
            return false;
    if (zt_in(g, node, ZT_PAST_K) || !is_y_alone(g, node, grad) ||
        (mask && !zt_dtype_in(mask->dtype, ZT_CUDA_FLOATS | ZT_BIT(ZT_BOOL))) || !zt_attention_read(g, node, &a, &err))
        return false;
    const int64_t sizes[] = { a.batch, a.kv_heads, a.queries, a.keys, a.size, a.v_size };
    bool fit = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fit &= zt_cuda_size(sizes[i]);
    return fit;
}

/* ---- rows ---- */

extern const struct zt_op zt_op_attention_train, zt_op_packed_attention_train, zt_op_attention_grad,
    zt_op_packed_attention_grad;

static bool attention_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_attention a;
    if (!zt_attention_read(g, node, &a, err))
        return false;
    enum zt_dtype q = zt_in(g, node, ZT_Q)->dtype, v = zt_in(g, node, a.v.tensor)->dtype;
    struct zt_shape qk = { 4, { a.batch, a.heads, a.queries, a.keys } };
    zt_set_out(g, node, ZT_Y, q, &a.y_shape);
    zt_set_out(g, node, ZT_PRESENT_K, q, &a.k_shape);
    zt_set_out(g, node, ZT_PRESENT_V, v, &a.v_shape);
    zt_set_out(g, node, ZT_QK, q, &qk);
    return true;
}

/* y, and of every query a number m and a factor f with p = exp(x - m) f, 0 and 0 where all keys are masked: the maximum
 * of x and 1 / sum of exp(x - maximum), or the logarithm of the sum of exp(x) and 1, whichever a kernel has. */
static bool train_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_attention a;
    if (!zt_attention_read(g, node, &a, err))
        return false;
    enum zt_dtype q = zt_in(g, node, ZT_Q)->dtype;
    struct zt_shape statistics = { 4, { a.batch, a.heads, 2, a.queries } };
    zt_set_out(g, node, 0, q, &a.y_shape);
    zt_set_out(g, node, 1, q == ZT_DOUBLE ? q : ZT_FLOAT, &statistics);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_attention a;
    if (!zt_attention_read(g, node, &a, err))
        return false;
    struct zt_shape qk = { 4, { a.batch, a.heads, a.queries, a.keys } };
    const struct zt_shape *wanted[] = { &a.y_shape, &a.k_shape, &a.v_shape, &qk };
    for (int i = 0; i < ZT_ATTENTION_OUTS; i++) {
        const struct zt_value *dy = zt_in(g, node, ZT_ATTENTION_INS + i);
        if (dy && !zt_shape_equal(&dy->shape, wanted[i]))
            return zt_attention_shape_fail(g, node, dy, "that of the output it belongs to", err);
    }
    struct zt_shape past_k = a.k_shape, past_v = a.v_shape, mask = qk, none = { 1, { 0 } };
    past_k.dim[2] = past_v.dim[2] = a.past;
    mask.dim[3] = a.mask_length;
    const struct zt_shape *shapes[] = { &none, &none, &none, &past_k, &past_v, &mask };
    for (int i = ZT_Q; i <= ZT_V; i++)
        shapes[i] = zt_in(g, node, i) ? &zt_in(g, node, i)->shape : &none;
    enum zt_dtype q = zt_in(g, node, ZT_Q)->dtype, v = zt_in(g, node, a.v.tensor)->dtype;
    for (int i = ZT_DQ; i <= ZT_DMASK; i++)
        zt_set_out(g, node, i, i == ZT_DV || i == ZT_DPAST_V ? v : q, shapes[i]);
    return true;
}

static double forward_flops(const struct zt_graph *g, int node) {
    struct zt_attention a;
    struct zt_err err = { 0 };
    if (!zt_attention_read(g, node, &a, &err))
        return 0;
    return 2.0 * (double)(a.batch * a.heads) * (double)a.queries * (double)a.keys * (double)(a.size + a.v_size);
}

/* s and dp again, then dq, dk and dv. */
static double grad_flops(const struct zt_graph *g, int node) {
    return 2.5 * forward_flops(g, node);
}

static bool attention_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    static const int of[ZT_ATTENTION_GRADS] = { ZT_Q, ZT_K, ZT_V, ZT_PAST_K, ZT_PAST_V, ZT_MASK };
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const bool train = zt_attention_is_train(n->op), packed = !zt_in(zt_grad_graph(b), node, ZT_K);
    int in[ZT_ATTENTION_GRAD_INS], out[ZT_ATTENTION_GRADS] = { 0 }, count = 0;
    for (int i = 0; i < ZT_ATTENTION_INS; i++)
        in[i] = i < n->in_count ? n->in[i] : -1;
    for (int i = 0; i < ZT_ATTENTION_OUTS; i++)
        in[ZT_ATTENTION_INS + i] = i < (train ? 1 : n->out_count) && n->out[i] >= 0 ? zt_grad_out(b, node, i) : -1;
    in[ZT_SAVED_Y] = train ? n->out[0] : -1;
    in[ZT_SAVED_STATISTICS] = train ? n->out[1] : -1;
    for (int i = 0; i < ZT_ATTENTION_GRADS; i++)
        if (zt_grad_wanted(b, node, of[i]))
            count = i + 1;
    zt_emit_node(b,
                 &(struct zt_emission){ packed ? "PackedAttentionGrad" : "AttentionGrad", "ztrain", in,
                                        train ? ZT_ATTENTION_GRAD_INS : ZT_SAVED_Y, n },
                 out, count);
    for (int i = 0; i < count; i++) {
        if (!zt_grad_wanted(b, node, of[i]))
            continue;
        int dx = i == ZT_DMASK ? zt_grad_unbroadcast(b, out[i], in[ZT_MASK]) : out[i];
        zt_grad_give(b, node, of[i], i == ZT_DMASK ? zt_emit_cast_like(b, dx, in[ZT_MASK]) : dx);
    }
    return true;
}

/* Replaces the node by its training form if y is its only output. */
static bool attention_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    const bool packed = g->nodes[node]->op == &zt_op_packed_attention;
    for (int i = 1; i < g->nodes[node]->out_count; i++)
        if (g->nodes[node]->out[i] >= 0)
            return true;
    return options->evaluation ||
           zt_train_rewrite(g, node, packed ? &zt_op_packed_attention_train : &zt_op_attention_train, 2, err);
}

static const struct zt_attr_spec attrs[] = {
    { "is_causal", ZT_ATTR_INT },         { "kv_num_heads", ZT_ATTR_INT },
    { "q_num_heads", ZT_ATTR_INT },       { "qk_matmul_output_mode", ZT_ATTR_INT },
    { "scale", ZT_ATTR_FLOAT },           { "softcap", ZT_ATTR_FLOAT },
    { "softmax_precision", ZT_ATTR_INT }, { "left_window_size", ZT_ATTR_INT },
    { "right_window_size", ZT_ATTR_INT }, { 0 }
};

#define TYPES ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_TYPE, ZT_ANY_FLOAT, ZT_ANY_FLOAT, 1 << ZT_INT64

#define FORWARD_ROW(id, NAME, DOMAIN, SINCE, LEAST)                                                                    \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = DOMAIN,                                                                                              \
        .since = SINCE,                                                                                                \
        .min_in = LEAST,                                                                                               \
        .max_in = ZT_ATTENTION_INS,                                                                                    \
        .min_out = 1,                                                                                                  \
        .max_out = ZT_ATTENTION_OUTS,                                                                                  \
        .flags = ZT_OP_HALF,                                                                                           \
        .full_in = 1 << ZT_MASK,                                                                                       \
        .in_types = { TYPES },                                                                                         \
        .same_type = 1 << ZT_K | 1 << ZT_PAST_K,                                                                       \
        .attrs = attrs,                                                                                                \
        .infer = attention_infer,                                                                                      \
        .grad = attention_grad,                                                                                        \
        .no_grad_in = 1 << ZT_NONPAD,                                                                                  \
        .train = attention_train,                                                                                      \
        .flops = forward_flops,                                                                                        \
        .kernel = { [ZT_REF] = { .prepare = zt_attention_prepare, .run = zt_attention_run },                           \
                    [ZT_CPU] = ZT_ON_CPU_WITH(zt_attention_cpu, .prefers_float = zt_attention_cpu_prefers_float),      \
                    [ZT_CUDA] = ZT_ON_CUDA(attention, takes_cuda) },                                                   \
    };
#define TRAIN_ROW(id, NAME, LEAST)                                                                                     \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        .min_in = LEAST,                                                                                               \
        .max_in = ZT_ATTENTION_INS,                                                                                    \
        .min_out = 2,                                                                                                  \
        .max_out = 2,                                                                                                  \
        .flags = ZT_OP_HALF,                                                                                           \
        .full_in = 1 << ZT_MASK,                                                                                       \
        .full_out = 1 << 1,                                                                                            \
        .in_types = { TYPES },                                                                                         \
        .same_type = 1 << ZT_K | 1 << ZT_PAST_K,                                                                       \
        .attrs = attrs,                                                                                                \
        .infer = train_infer,                                                                                          \
        .grad = attention_grad,                                                                                        \
        .no_grad_in = 1 << ZT_NONPAD,                                                                                  \
        .flops = forward_flops,                                                                                        \
        .kernel = { [ZT_REF] = { .prepare = zt_attention_prepare, .run = zt_attention_run },                           \
                    [ZT_CPU] = ZT_ON_CPU_WITH(zt_attention_cpu, .prefers_float = zt_attention_cpu_prefers_float),      \
                    [ZT_CUDA] = ZT_ON_CUDA(attention, takes_cuda) },                                                   \
    };
#define GRAD_ROW(id, NAME, LEAST, BODY)                                                                                \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        .min_in = LEAST,                                                                                               \
        .max_in = ZT_ATTENTION_GRAD_INS,                                                                               \
        .min_out = 1,                                                                                                  \
        .max_out = ZT_ATTENTION_GRADS,                                                                                 \
        .flags = ZT_OP_HALF,                                                                                           \
        .full_in = 1 << ZT_MASK | 1 << ZT_SAVED_STATISTICS,                                                            \
        .in_types = { TYPES, ZT_ANY_FLOAT },                                                                           \
        .same_type = 1 << ZT_K | 1 << ZT_PAST_K,                                                                       \
        .attrs = attrs,                                                                                                \
        .infer = grad_infer,                                                                                           \
        .flops = grad_flops,                                                                                           \
        .body = BODY,                                                                                                  \
        .kernel = { [ZT_REF] = { .prepare = zt_attention_grad_prepare, .run = zt_attention_grad_run },                 \
                    [ZT_CPU] = ZT_ON_CPU_WITH(zt_attention_grad_cpu, .prefers_float = zt_attention_cpu_prefers_float), \
                    [ZT_CUDA] = ZT_ON_CUDA(attention_grad, takes_cuda) },                                              \
    };

FORWARD_ROW(attention, "Attention", "", 23, ZT_V + 1)
TRAIN_ROW(attention_train, "AttentionTrain", ZT_V + 1)
/* (the inputs of Attention, the cotangents of its outputs, the outputs of AttentionTrain or nothing) -> dq, dk, dv,
 * dpast_key, dpast_value, dbias before it is summed to the mask's shape */
GRAD_ROW(attention_grad, "AttentionGrad", ZT_V + 1, zt_attention_grad_function_body)

/* The packed forms (attention.h). A pattern makes them, so none comes into a file. */
FORWARD_ROW(packed_attention, "PackedAttention", "ztrain", 1, ZT_Q + 1)
TRAIN_ROW(packed_attention_train, "PackedAttentionTrain", ZT_Q + 1)
GRAD_ROW(packed_attention_grad, "PackedAttentionGrad", ZT_Q + 1, NULL)
