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
#include "ops/attention.h"
#include "ops/bodies.h"

#include "ops/cpu.h"
#include "ops/shape.h"
#include "ops/train.h"

#include <math.h>
#include <string.h>

/* ---- reading a node ---- */

static bool fail_shape(const struct zt_graph *g, int node, const struct zt_value *v, const char *wanted,
                       struct zt_err *err) {
    char text[ZT_SHAPE_TEXT];
    return zt_node_fail(g, node, err, "\"%s\" has shape %s; wanted is %s", v->name, zt_shape_text(&v->shape, text),
                        wanted);
}

/* An input as heads: [batch, heads, rows, size], or [batch, rows, heads * size] with `heads` from an attribute. */
struct view {
    int64_t batch, heads, rows, size;
    struct zt_heads step;
};

static bool view_heads(const struct zt_graph *g, int node, int in, const char *attr, struct view *to,
                       struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, in);
    const int64_t *d = x->shape.dim;
    if (x->shape.rank == 4) {
        *to = (struct view){ d[0], d[1], d[2], d[3], { d[1] * d[2] * d[3], d[2] * d[3], d[3] } };
        return true;
    }
    int64_t heads = zt_attr_int(&g->nodes[node], attr, 0);
    if (x->shape.rank != 3)
        return fail_shape(g, node, x, "rank 3 or 4", err);
    if (heads < 1 || d[2] % heads)
        return zt_node_fail(g, node, err, "\"%s\" has %lld columns, which are not %s = %lld heads", x->name,
                            (long long)d[2], attr, (long long)heads);
    *to = (struct view){ d[0], heads, d[1], d[2] / heads, { d[1] * d[2], d[2] / heads, d[2] } };
    return true;
}

/* The past rows of k or v; none where the input is omitted. */
static bool view_past(const struct zt_graph *g, int node, int in, const struct view *now, struct view *to,
                      struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, in);
    *to = (struct view){ now->batch, now->heads, 0, now->size, { 0 } };
    if (!x)
        return true;
    if (x->shape.rank != 4 || !view_heads(g, node, in, NULL, to, err) || to->batch != now->batch ||
        to->heads != now->heads || to->size != now->size)
        return fail_shape(g, node, x, "[batch, heads, rows, size] as of what follows it", err);
    return true;
}

static bool read_heads(const struct zt_graph *g, int node, struct zt_attention *to, struct zt_err *err) {
    struct view q, k, v, past_k, past_v;
    int rank = zt_in(g, node, ZT_Q)->shape.rank;
    if (!view_heads(g, node, ZT_Q, "q_num_heads", &q, err) || !view_heads(g, node, ZT_K, "kv_num_heads", &k, err) ||
        !view_heads(g, node, ZT_V, "kv_num_heads", &v, err) || !view_past(g, node, ZT_PAST_K, &k, &past_k, err) ||
        !view_past(g, node, ZT_PAST_V, &v, &past_v, err))
        return false;
    if (k.batch != q.batch || k.size != q.size || k.heads < 1 || q.heads % k.heads ||
        zt_in(g, node, ZT_K)->shape.rank != rank)
        return fail_shape(g, node, zt_in(g, node, ZT_K), "batch, size and a part of the heads of the queries", err);
    if (v.batch != k.batch || v.heads != k.heads || v.rows != k.rows || past_v.rows != past_k.rows ||
        zt_in(g, node, ZT_V)->shape.rank != rank)
        return fail_shape(g, node, zt_in(g, node, ZT_V), "batch, heads and rows of the keys", err);
    to->batch = q.batch, to->heads = q.heads, to->kv_heads = k.heads;
    to->queries = q.rows, to->past = past_k.rows;
    to->size = q.size, to->v_size = v.size;
    to->q = q.step, to->k = k.step, to->v = v.step, to->past_k = past_k.step, to->past_v = past_v.step;
    return zt_ops_dim_sum(g, node, k.rows, past_k.rows, &to->keys, err);
}

static bool read_outputs(const struct zt_graph *g, int node, struct zt_attention *a, struct zt_err *err) {
    int64_t columns, sample;
    if (!zt_ops_dim_product(g, node, a->heads, a->v_size, &columns, err) ||
        !zt_ops_dim_product(g, node, a->queries, columns, &sample, err))
        return false;
    if (zt_in(g, node, ZT_Q)->shape.rank == 3) {
        a->y_shape = (struct zt_shape){ 3, { a->batch, a->queries, columns } };
        a->y = (struct zt_heads){ sample, a->v_size, columns };
    } else {
        a->y_shape = (struct zt_shape){ 4, { a->batch, a->heads, a->queries, a->v_size } };
        a->y = (struct zt_heads){ sample, a->queries * a->v_size, a->v_size };
    }
    a->k_shape = (struct zt_shape){ 4, { a->batch, a->kv_heads, a->keys, a->size } };
    a->v_shape = (struct zt_shape){ 4, { a->batch, a->kv_heads, a->keys, a->v_size } };
    return true;
}

static bool read_mask(const struct zt_graph *g, int node, struct zt_attention *a, struct zt_err *err) {
    const struct zt_value *mask = zt_in(g, node, ZT_MASK);
    int64_t want[4] = { a->batch, a->heads, a->queries, a->keys }, stride[ZT_MAX_RANK];
    a->mask_length = a->keys;
    if (!mask)
        return true;
    int rank = mask->shape.rank;
    bool fits = rank >= 1 && rank <= 4 && mask->shape.dim[rank - 1] <= a->keys;
    zt_shape_strides(&mask->shape, stride);
    for (int k = 0; fits && k < rank; k++) {
        int64_t dim = mask->shape.dim[k], *step = &a->mask_step[4 - rank + k];
        fits = k == rank - 1 || dim == 1 || dim == want[4 - rank + k];
        *step = dim == 1 ? 0 : stride[k];
    }
    if (!fits)
        return fail_shape(g, node, mask, "one that broadcasts to [batch, heads, queries, keys]", err);
    a->mask_length = mask->shape.dim[rank - 1];
    return true;
}

static bool read_attrs(const struct zt_graph *g, int node, struct zt_attention *a, struct zt_err *err) {
    const struct zt_node *n = &g->nodes[node];
    int64_t qk = zt_attr_int(n, "qk_matmul_output_mode", 0), precision = zt_attr_int(n, "softmax_precision", ZT_FLOAT);
    a->scale = zt_attr_float(n, "scale", a->size > 0 ? (float)(1 / sqrt((double)a->size)) : 1);
    a->softcap = zt_attr_float(n, "softcap", 0);
    a->causal = zt_attr_int(n, "is_causal", 0) != 0;
    a->left = zt_attr_int(n, "left_window_size", -1);
    a->right = zt_attr_int(n, "right_window_size", -1);
    if (qk < ZT_QK_RAW || qk > ZT_QK_SOFTMAX)
        return zt_node_fail(g, node, err, "qk_matmul_output_mode is %lld, not 0 to 3", (long long)qk);
    if (precision < 0 || precision >= ZT_DTYPES || !zt_dtype_in((enum zt_dtype)precision, ZT_ANY_FLOAT))
        return zt_node_fail(g, node, err, "softmax_precision is %lld, which is no float type", (long long)precision);
    if (a->left < -1 || a->right < -1)
        return zt_node_fail(g, node, err, "a window of %lld and %lld", (long long)a->left, (long long)a->right);
    a->softcap = a->softcap > 0 ? a->softcap : 0;
    a->qk = (enum zt_qk)qk;
    return true;
}

bool zt_attention_read(const struct zt_graph *g, int node, struct zt_attention *to, struct zt_err *err) {
    const struct zt_value *nonpad = zt_in(g, node, ZT_NONPAD);
    memset(to, 0, sizeof *to);
    if (!zt_in(g, node, ZT_PAST_K) != !zt_in(g, node, ZT_PAST_V))
        return zt_node_fail(g, node, err, "past_key and past_value are only given together");
    if (!read_heads(g, node, to, err) || !read_outputs(g, node, to, err) || !read_mask(g, node, to, err))
        return false;
    if (nonpad && (nonpad->shape.rank != 1 || nonpad->shape.dim[0] != to->batch))
        return fail_shape(g, node, nonpad, "[batch]", err);
    if (nonpad && zt_in(g, node, ZT_PAST_K))
        return zt_node_fail(g, node, err, "nonpad_kv_seqlen and past_key are not given together");
    return read_attrs(g, node, to, err);
}

/* ---- rows ---- */

static bool attention_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_attention a;
    if (!zt_attention_read(g, node, &a, err))
        return false;
    enum zt_dtype q = zt_in(g, node, ZT_Q)->dtype, v = zt_in(g, node, ZT_V)->dtype;
    struct zt_shape qk = { 4, { a.batch, a.heads, a.queries, a.keys } };
    zt_set_out(g, node, ZT_Y, q, &a.y_shape);
    zt_set_out(g, node, ZT_PRESENT_K, q, &a.k_shape);
    zt_set_out(g, node, ZT_PRESENT_V, v, &a.v_shape);
    zt_set_out(g, node, ZT_QK, q, &qk);
    return true;
}

/* y, and of every query the maximum of its scores and 1 / sum of exp(score - maximum). */
static bool train_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_attention a;
    if (!zt_attention_read(g, node, &a, err))
        return false;
    enum zt_dtype q = zt_in(g, node, ZT_Q)->dtype;
    struct zt_shape kept = { 4, { a.batch, a.heads, 2, a.queries } };
    zt_set_out(g, node, 0, q, &a.y_shape);
    zt_set_out(g, node, 1, q == ZT_DOUBLE ? q : ZT_FLOAT, &kept);
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
            return fail_shape(g, node, dy, "that of the output it belongs to", err);
    }
    struct zt_shape past_k = a.k_shape, past_v = a.v_shape, mask = qk;
    past_k.dim[2] = past_v.dim[2] = a.past;
    mask.dim[3] = a.mask_length;
    const struct zt_shape *shapes[] = { NULL, NULL, NULL, &past_k, &past_v, &mask };
    enum zt_dtype q = zt_in(g, node, ZT_Q)->dtype, v = zt_in(g, node, ZT_V)->dtype;
    for (int i = ZT_DQ; i <= ZT_DMASK; i++)
        zt_set_out(g, node, i, i == ZT_DV || i == ZT_DPAST_V ? v : q,
                   i <= ZT_DV ? &zt_in(g, node, i)->shape : shapes[i]);
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
    const struct zt_node n = zt_grad_graph(b)->nodes[node];
    const bool train = n.op == &zt_op_attention_train;
    int in[ZT_ATTENTION_GRAD_INS], out[ZT_ATTENTION_GRADS] = { 0 }, count = 0;
    for (int i = 0; i < ZT_ATTENTION_INS; i++)
        in[i] = i < n.in_count ? n.in[i] : -1;
    for (int i = 0; i < ZT_ATTENTION_OUTS; i++)
        in[ZT_ATTENTION_INS + i] = i < (train ? 1 : n.out_count) && n.out[i] >= 0 ? zt_grad_out(b, node, i) : -1;
    in[ZT_KEPT_Y] = train ? n.out[0] : -1;
    in[ZT_KEPT_STATISTICS] = train ? n.out[1] : -1;
    for (int i = 0; i < ZT_ATTENTION_GRADS; i++)
        if (zt_grad_wanted(b, node, of[i]))
            count = i + 1;
    zt_emit_node(b, "AttentionGrad", "ztrain", in, train ? ZT_ATTENTION_GRAD_INS : ZT_KEPT_Y, &n, NULL, 0, out, count);
    for (int i = 0; i < count; i++) {
        if (!zt_grad_wanted(b, node, of[i]))
            continue;
        int dx = i == ZT_DMASK ? zt_grad_unbroadcast(b, out[i], in[ZT_MASK]) : out[i];
        zt_grad_give(b, node, of[i], i == ZT_DMASK ? zt_emit_cast_like(b, dx, in[ZT_MASK]) : dx);
    }
    return true;
}

/* Where y alone is asked for. */
static bool attention_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    for (int i = 1; i < g->nodes[node].out_count; i++)
        if (g->nodes[node].out[i] >= 0)
            return true;
    return options->evaluation || zt_train_rewrite(g, node, &zt_op_attention_train, 2, err);
}

static const struct zt_attr_spec attrs[] = {
    { "is_causal", ZT_ATTR_INT },         { "kv_num_heads", ZT_ATTR_INT },
    { "q_num_heads", ZT_ATTR_INT },       { "qk_matmul_output_mode", ZT_ATTR_INT },
    { "scale", ZT_ATTR_FLOAT },           { "softcap", ZT_ATTR_FLOAT },
    { "softmax_precision", ZT_ATTR_INT }, { "left_window_size", ZT_ATTR_INT },
    { "right_window_size", ZT_ATTR_INT }, { 0 }
};

#define TYPES ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_TYPE, ZT_ANY_FLOAT, ZT_ANY_FLOAT, 1 << ZT_INT64

const struct zt_op zt_op_attention = {
    .name = "Attention",
    .domain = "",
    .since = 23,
    .min_in = 3,
    .max_in = ZT_ATTENTION_INS,
    .min_out = 1,
    .max_out = ZT_ATTENTION_OUTS,
    .in_types = { TYPES },
    .same_type = 1 << ZT_K | 1 << ZT_PAST_K,
    .attrs = attrs,
    .infer = attention_infer,
    .grad = attention_grad,
    .no_grad_in = 1 << ZT_NONPAD,
    .train = attention_train,
    .flops = forward_flops,
    .kernel = { [ZT_REF] = { .prepare = zt_attention_prepare, .run = zt_attention_run },
                [ZT_CPU] = ZT_ON_CPU(zt_attention_cpu) },
};
const struct zt_op zt_op_attention_train = {
    .name = "AttentionTrain",
    .domain = "ztrain",
    .since = 1,
    .min_in = 3,
    .max_in = ZT_ATTENTION_INS,
    .min_out = 2,
    .max_out = 2,
    .in_types = { TYPES },
    .same_type = 1 << ZT_K | 1 << ZT_PAST_K,
    .attrs = attrs,
    .infer = train_infer,
    .grad = attention_grad,
    .no_grad_in = 1 << ZT_NONPAD,
    .flops = forward_flops,
    .kernel = { [ZT_REF] = { .prepare = zt_attention_prepare, .run = zt_attention_run },
                [ZT_CPU] = ZT_ON_CPU(zt_attention_cpu) },
};
/* (the inputs of Attention, the cotangents of its outputs, the outputs of AttentionTrain or nothing) -> dq, dk, dv,
 * dpast_key, dpast_value, dbias before it is summed to the mask's shape */
const struct zt_op zt_op_attention_grad = {
    .name = "AttentionGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 3,
    .max_in = ZT_ATTENTION_GRAD_INS,
    .min_out = 1,
    .max_out = ZT_ATTENTION_GRADS,
    .in_types = { TYPES, ZT_ANY_FLOAT },
    .same_type = 1 << ZT_K | 1 << ZT_PAST_K,
    .attrs = attrs,
    .infer = grad_infer,
    .flops = grad_flops,
    .body = zt_attention_grad_body,
    .kernel = { [ZT_REF] = { .prepare = zt_attention_grad_prepare, .run = zt_attention_grad_run },
                [ZT_CPU] = ZT_ON_CPU(zt_attention_grad_cpu) },
};
