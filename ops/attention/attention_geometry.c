/* The geometry of Attention nodes, read from the node (attention.h). Needs no table of rows: the CUDA module has it
 * too.
 */
#include "ops/attention/attention.h"

#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

bool zt_attention_shape_fail(const struct zt_graph *g, int node, const struct zt_value *v, const char *wanted,
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
        *to = (struct view){
            d[0], d[1], d[2], d[3], { .batch = d[1] * d[2] * d[3], .head = d[2] * d[3], .row = d[3], .tensor = in }
        };
        return true;
    }
    int64_t heads = zt_attr_int(g->nodes[node], attr, 0);
    if (x->shape.rank != 3)
        return zt_attention_shape_fail(g, node, x, "rank 3 or 4", err);
    if (heads < 1 || d[2] % heads)
        return zt_node_fail(g, node, err, "\"%s\" has %lld columns, which are not %s = %lld heads", x->name,
                            (long long)d[2], attr, (long long)heads);
    *to = (struct view){
        d[0], heads, d[1], d[2] / heads, { .batch = d[1] * d[2], .head = d[2] / heads, .row = d[2], .tensor = in }
    };
    return true;
}

/* Queries, keys and values in one tensor. */
static bool view_packed(const struct zt_graph *g, int node, struct view *q, struct view *k, struct view *v,
                        struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, ZT_Q);
    const int64_t *d = x->shape.dim, heads = zt_attr_int(g->nodes[node], "q_num_heads", 0),
                  kv_heads = zt_attr_int(g->nodes[node], "kv_num_heads", 0), all = heads + 2 * kv_heads;
    if (x->shape.rank != 3 || heads < 1 || kv_heads < 1 || d[2] % all)
        return zt_attention_shape_fail(g, node, x, "[batch, rows, (q_num_heads + 2 kv_num_heads) * size]", err);
    const int64_t size = d[2] / all;
    *q = (struct view){ d[0], heads, d[1], size, { .batch = d[1] * d[2], .head = size, .row = d[2], .tensor = ZT_Q } };
    *k = *v = *q;
    k->heads = v->heads = kv_heads;
    k->step.first = heads * size;
    v->step.first = (heads + kv_heads) * size;
    return true;
}

static bool view_inputs(const struct zt_graph *g, int node, struct view *q, struct view *k, struct view *v,
                        struct zt_err *err) {
    if (!zt_in(g, node, ZT_K))
        return view_packed(g, node, q, k, v, err);
    for (int i = ZT_K; i <= ZT_V; i++)
        if (zt_in(g, node, i)->shape.rank != zt_in(g, node, ZT_Q)->shape.rank)
            return zt_attention_shape_fail(g, node, zt_in(g, node, i), "the rank of the queries", err);
    return view_heads(g, node, ZT_Q, "q_num_heads", q, err) && view_heads(g, node, ZT_K, "kv_num_heads", k, err) &&
           view_heads(g, node, ZT_V, "kv_num_heads", v, err);
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
        return zt_attention_shape_fail(g, node, x, "[batch, heads, rows, size] as of what follows it", err);
    return true;
}

static bool read_heads(const struct zt_graph *g, int node, struct zt_attention *to, struct zt_err *err) {
    struct view q, k, v, past_k, past_v;
    if (!view_inputs(g, node, &q, &k, &v, err) || !view_past(g, node, ZT_PAST_K, &k, &past_k, err) ||
        !view_past(g, node, ZT_PAST_V, &v, &past_v, err))
        return false;
    if (k.batch != q.batch || k.size != q.size || k.heads < 1 || q.heads % k.heads)
        return zt_attention_shape_fail(g, node, zt_in(g, node, k.step.tensor),
                                       "batch, size and a part of the heads of the queries", err);
    if (v.batch != k.batch || v.heads != k.heads || v.rows != k.rows || past_v.rows != past_k.rows)
        return zt_attention_shape_fail(g, node, zt_in(g, node, v.step.tensor), "batch, heads and rows of the keys",
                                       err);
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
        a->y = (struct zt_heads){ .batch = sample, .head = a->v_size, .row = columns };
    } else {
        a->y_shape = (struct zt_shape){ 4, { a->batch, a->heads, a->queries, a->v_size } };
        a->y = (struct zt_heads){ .batch = sample, .head = a->queries * a->v_size, .row = a->v_size };
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
        return zt_attention_shape_fail(g, node, mask, "one that broadcasts to [batch, heads, queries, keys]", err);
    a->mask_length = mask->shape.dim[rank - 1];
    return true;
}

static bool read_attrs(const struct zt_graph *g, int node, struct zt_attention *a, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
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
        return zt_attention_shape_fail(g, node, nonpad, "[batch]", err);
    if (nonpad && zt_in(g, node, ZT_PAST_K))
        return zt_node_fail(g, node, err, "nonpad_kv_seqlen and past_key are not given together");
    return read_attrs(g, node, to, err);
}

bool zt_attention_is_train(const struct zt_op *op) {
    return strcmp(op->name, "AttentionTrain") == 0 || strcmp(op->name, "PackedAttentionTrain") == 0;
}

bool zt_attention_is_grad(const struct zt_op *op) {
    return strcmp(op->name, "AttentionGrad") == 0 || strcmp(op->name, "PackedAttentionGrad") == 0;
}
