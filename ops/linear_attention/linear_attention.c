/* LinearAttention (opset 27 on): attention whose scores have no softmax, as a recurrence over a state S [size, columns]
 * of every head of keys. At each step, with k, v, decay g and beta b of the step (u, e and A are names of this file):
 *
 *     A = e S, e = exp g        of every row of S; e = 1 without decay (update_rule linear and delta)
 *     u = b (v - A^T k)         where the rule has a delta, else u = v
 *     S = A + k u^T
 *     y = scale S^T q           for every query head that shares this head of keys
 *
 * Backward, from the last step to the first, with D the gradient of S (dpresent at first):
 *
 *     D += scale sum of q dy^T              dq = scale S dy
 *     du = D^T k                            dk = D u
 *     delta:  dbeta = du (v - A^T k)        dv = b du        dr = -dv        dk += A dr        D += k dr^T
 *     else:   dv = du
 *     dg = sum of the columns of D A        D = e D, the gradient of the state before the step
 *
 * A decay of the whole head has the sum of dg over the rows. chunk_size is a hint that changes no result. */
#include "ops/linear_attention/kernels.h"
#include "ops/linear_attention/linear.h"

#include "ops/kernel/shape.h"

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_linear l;
    if (!zt_linear_attention_read(g, node, &l, err))
        return false;
    const struct zt_value *q = zt_in(g, node, ZT_LINEAR_Q), *past = zt_in(g, node, ZT_LINEAR_PAST);
    const struct zt_shape y = { 3, { l.batch, l.steps, l.heads * l.v_size } };
    const struct zt_shape state = { 4, { l.batch, l.kv_heads, l.size, l.v_size } };
    zt_set_out(g, node, 0, q->dtype, &y);
    zt_set_out(g, node, 1, past ? past->dtype : q->dtype, &state);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_linear l;
    if (!zt_linear_attention_read(g, node, &l, err))
        return false;
    const struct zt_shape outs[2] = { { 3, { l.batch, l.steps, l.heads * l.v_size } },
                                      { 4, { l.batch, l.kv_heads, l.size, l.v_size } } };
    for (int i = 0; i < 2; i++) {
        const struct zt_value *dy = zt_in(g, node, ZT_LINEAR_DY + i);
        if (dy && !zt_shape_equal(&dy->shape, &outs[i]))
            return zt_node_fail(g, node, err, "\"%s\" differs in shape from the output it belongs to", dy->name);
    }
    const struct zt_shape none = { 1, { 0 } };
    for (int i = 0; i < ZT_LINEAR_INS; i++) {
        const struct zt_value *x = zt_in(g, node, i);
        struct zt_shape shape = x ? x->shape : none;
        if (x && i == ZT_LINEAR_BETA)
            shape.dim[2] = l.kv_heads;
        zt_set_out(g, node, i, x ? x->dtype : ZT_FLOAT, &shape);
    }
    return true;
}

/* ---- FLOPs: decay, products with k, k u^T and products with q of the state ---- */

static double forward_flops(const struct zt_graph *g, int node) {
    struct zt_launch_linear l;
    struct zt_err err = { 0 };
    if (!zt_linear_attention_read(g, node, &l, &err))
        return 0;
    double each = 1 + l.gated * 0.5 + l.delta + (double)l.heads / (double)l.kv_heads;
    return 2 * each * (double)(l.batch * l.kv_heads) * (double)l.steps * (double)l.size * (double)l.v_size;
}

/* The states again, then twice their products. */
static double grad_flops(const struct zt_graph *g, int node) {
    return 3 * forward_flops(g, node);
}

/* ---- gradient rule ---- */

static bool linear_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[ZT_LINEAR_GRAD_INS], out[ZT_LINEAR_INS], count = 0;
    for (int i = 0; i < ZT_LINEAR_INS; i++)
        in[i] = i < n->in_count ? n->in[i] : -1;
    for (int i = 0; i < 2; i++)
        in[ZT_LINEAR_DY + i] = i < n->out_count && n->out[i] >= 0 ? zt_grad_out(b, node, i) : -1;
    for (int i = 0; i < ZT_LINEAR_INS; i++)
        if (zt_grad_wanted(b, node, i))
            count = i + 1;
    zt_emit_node(b, &(struct zt_emission){ "LinearAttentionGrad", "ztrain", in, ZT_LINEAR_GRAD_INS, n }, out, count);
    for (int i = 0; i < count; i++)
        if (zt_grad_wanted(b, node, i))
            zt_grad_give(b, node, i, i == ZT_LINEAR_BETA ? zt_grad_unbroadcast(b, out[i], in[i]) : out[i]);
    return true;
}

/* ---- CUDA ---- */

static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return zt_linear_attention_read(g, node, to, err);
}

/* A thread keeps its part of the state in registers, which bounds the rows. */
static bool cuda_supports(const struct zt_graph *g, int node) {
    struct zt_launch_linear l;
    struct zt_err err = { 0 };
    return zt_cuda_any_floats(g, node) && zt_linear_attention_read(g, node, &l, &err) && l.size <= ZT_LINEAR_MOST_ROWS;
}

/* ---- rows ---- */

static const struct zt_attr_spec attrs[] = {
    { "chunk_size", ZT_ATTR_INT }, { "kv_num_heads", ZT_ATTR_INT, true }, { "q_num_heads", ZT_ATTR_INT, true },
    { "scale", ZT_ATTR_FLOAT },    { "update_rule", ZT_ATTR_STRING },     { 0 }
};

#define SAME_TYPE (1 << ZT_LINEAR_K | 1 << ZT_LINEAR_V | 1 << ZT_LINEAR_DECAY | 1 << ZT_LINEAR_BETA)

const struct zt_op zt_op_linear_attention = {
    .name = "LinearAttention",
    .domain = "",
    .since = 27,
    .min_in = ZT_LINEAR_V + 1,
    .max_in = ZT_LINEAR_INS,
    .min_out = 1,
    .max_out = 2,
    .flags = ZT_OP_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .same_type = SAME_TYPE,
    .full_in = 1 << ZT_LINEAR_PAST,
    .attrs = attrs,
    .infer = infer,
    .grad = linear_grad,
    .flops = forward_flops,
    .kernel = { [ZT_REF] = { .prepare = zt_linear_attention_prepare, .run = zt_linear_attention_run },
                [ZT_CPU] = ZT_ON_CPU(zt_linear_attention_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(linear_attention, cuda_supports, describe) },
};
/* (the inputs of LinearAttention, dy, dpresent) -> the gradients of these inputs; that of beta for every head */
const struct zt_op zt_op_linear_attention_grad = {
    .name = "LinearAttentionGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = ZT_LINEAR_V + 1,
    .max_in = ZT_LINEAR_GRAD_INS,
    .min_out = 1,
    .max_out = ZT_LINEAR_INS,
    .flags = ZT_OP_HALF,
    .in_types = { ZT_ANY_FLOAT },
    .same_type = SAME_TYPE | 1 << ZT_LINEAR_DY,
    .full_in = 1 << ZT_LINEAR_PAST | 1 << ZT_LINEAR_DPRESENT,
    .attrs = attrs,
    .infer = grad_infer,
    .flops = grad_flops,
    .body = zt_linear_attention_grad_function_body,
    .kernel = { [ZT_REF] = { .prepare = zt_linear_attention_grad_prepare, .run = zt_linear_attention_grad_run },
                [ZT_CPU] = ZT_ON_CPU(zt_linear_attention_grad_cpu),
                [ZT_CUDA] = ZT_CUDA_AS(linear_attention_grad, cuda_supports, describe) },
};
