/* Attention and rotary embeddings, backwards (formulas in attention.c and rotary.c). */
#include "ops/attention/attention.h"
#include "ops/attention/kernels.h"
#include "ops/kernel/shape.h"

#include <math.h>

/* Heads of queries in groups: [batch, kv_heads, group, rows, columns]; keys and values have a group of one. */
struct groups {
    struct zt_function_body *b;
    struct zt_attention a;
    int64_t group;
    bool flat; /* inputs are [batch, rows, heads * columns] */
};

static const char *five(struct groups *s, int64_t group, int64_t rows, int64_t columns) {
    return zt_function_body_list(s->b, (const int64_t[]){ s->a.batch, s->a.kv_heads, group, rows, columns }, 5);
}

/* to = `from` with its heads in groups of `group`. */
static void write_heads(struct groups *s, const char *to, const char *from, int64_t group, int64_t rows,
                        int64_t columns) {
    if (s->flat)
        zt_function_body_add(s->b, "%s = Transpose<perm=[0, 2, 1, 3]>(Reshape(%s, [%lld, %lld, %lld, %lld]))", to, from,
                             (long long)s->a.batch, (long long)rows, (long long)(s->a.kv_heads * group),
                             (long long)columns);
    zt_function_body_add(s->b, "%s = Reshape(%s, %s)", to, s->flat ? to : from, five(s, group, rows, columns));
}

/* The inverse of write_heads, to the shape of output `out`. */
static void write_flat(struct groups *s, const char *to, int out, int64_t group, int64_t rows, int64_t columns) {
    if (!zt_function_body_wants(s->b, out))
        return;
    zt_function_body_add(s->b, "%s = Reshape(%s, [%lld, %lld, %lld, %lld])", to, to, (long long)s->a.batch,
                         (long long)(s->a.kv_heads * group), (long long)rows, (long long)columns);
    if (s->flat)
        zt_function_body_add(s->b, "%s = Transpose<perm=[0, 2, 1, 3]>(%s)", to, to);
    zt_function_body_add(s->b, "%s = Reshape(%s, %s)", to, to,
                         zt_function_body_dims(s->b, &zt_out(s->b->g, s->b->node, out)->shape));
}

/* The past rows and the given ones, one behind the other. */
static void write_rows(struct groups *s, const char *to, const char *now, const char *past, int64_t columns) {
    write_heads(s, to, now, 1, s->a.keys - s->a.past, columns);
    if (zt_in(s->b->g, s->b->node, ZT_PAST_K))
        zt_function_body_add(s->b, "%s = Concat<axis=3>(Reshape(%s, %s), %s)", to, past, five(s, 1, s->a.past, columns),
                             to);
}

/* visible: where a query may see a key, as far as causality, window and padding go */
static void write_visible(struct groups *s) {
    const struct zt_attention *a = &s->a;
    struct zt_function_body *b = s->b;
    bool nonpad = zt_in(b->g, b->node, ZT_NONPAD);
    zt_function_body_add(b, "i = Reshape(%s, [%lld, 1]); j = %s", zt_function_body_range(b, a->queries),
                         (long long)a->queries, zt_function_body_range(b, a->keys));
    zt_function_body_add(b, "visible = Less(j, %lldi); here = i + %lldi", (long long)a->mask_length,
                         (long long)a->past);
    if (nonpad)
        zt_function_body_add(b,
                             "end = Reshape(nonpad, [%lld, 1, 1, 1, 1]); visible = And(visible, Less(j, end));"
                             "here = i + end - %lldi",
                             (long long)a->batch, (long long)a->queries);
    if (a->causal)
        zt_function_body_add(b, "visible = And(visible, LessOrEqual(j, here))");
    if (a->left >= 0)
        zt_function_body_add(b, "visible = And(visible, GreaterOrEqual(j, here - %lldi))", (long long)a->left);
    if (a->right >= 0)
        zt_function_body_add(b, "visible = And(visible, LessOrEqual(j, here + %lldi))", (long long)a->right);
}

/* The mask for every head, as long as the keys. */
static void write_mask(struct groups *s) {
    const struct zt_attention *a = &s->a;
    struct zt_function_body *b = s->b;
    const struct zt_value *mask = zt_in(b->g, b->node, ZT_MASK);
    if (!mask)
        return;
    const int64_t shape[] = { a->batch, a->heads, a->queries, a->mask_length };
    zt_function_body_add(b, "mask = Expand(Cast<to=T>(mask), %s)", zt_function_body_list(b, shape, 4));
    zt_function_body_add(b, "mask = Reshape(Pad(mask, [0, 0, 0, 0, 0, 0, 0, %lld]), %s)",
                         (long long)(a->keys - a->mask_length), five(s, s->group, a->queries, a->keys));
    zt_function_body_add(b, mask->dtype == ZT_BOOL ? "visible = And(visible, Not(Equal(mask, 0)))" : "x = x + mask");
}

/* c: scores, p: weights */
static void write_weights(struct groups *s) {
    struct zt_function_body *b = s->b;
    zt_function_body_number(b, "scale", s->a.scale);
    zt_function_body_number(b, "cap", s->a.softcap);
    zt_function_body_add(b, "c = scale * MatMul(q, Transpose<perm=[0, 1, 2, 4, 3]>(k))");
    if (s->a.softcap > 0)
        zt_function_body_add(b, "c = cap * Tanh(c / cap)");
    zt_function_body_add(b, "x = c");
    write_visible(s);
    write_mask(s);
    zt_function_body_number(b, "hidden", -INFINITY);
    zt_function_body_add(b,
                         "x = Where(visible, x, hidden); most = ReduceMax(x, [4]); most = Where(IsInf(most), 0, most)");
    zt_function_body_add(b, "p = Exp(x - most); sum = ReduceSum(p, [4]); p = Where(Equal(sum, 0), 0, p / sum)");
}

static bool given(const struct groups *s, int out) {
    return zt_in(s->b->g, s->b->node, ZT_ATTENTION_INS + out);
}

static void write_shown(struct groups *s, enum zt_qk stage, const char *name) {
    if (given(s, ZT_QK) && s->a.qk == stage)
        zt_function_body_add(s->b, "%s = %s + Reshape(dqk, %s)", name, name,
                             five(s, s->group, s->a.queries, s->a.keys));
}

/* d: the gradient of the scores */
static void write_scores(struct groups *s) {
    struct zt_function_body *b = s->b;
    const struct zt_attention *a = &s->a;
    zt_function_body_add(b, "d = 0 * p");
    if (given(s, ZT_Y))
        zt_function_body_add(b, "d = MatMul(dy, Transpose<perm=[0, 1, 2, 4, 3]>(v))");
    write_shown(s, ZT_QK_SOFTMAX, "d");
    zt_function_body_add(b, "d = p * (d - ReduceSum(p * d, [4]))");
    write_shown(s, ZT_QK_BIASED, "d");
    zt_function_body_add(b, "dmask = Reshape(d, [%lld, %lld, %lld, %lld]); dmask = Slice(dmask, [0], [%lld], [3])",
                         (long long)a->batch, (long long)a->heads, (long long)a->queries, (long long)a->keys,
                         (long long)a->mask_length);
    write_shown(s, ZT_QK_CAPPED, "d");
    if (a->softcap > 0)
        zt_function_body_add(b, "d = d * (1 - c / cap * (c / cap))");
    write_shown(s, ZT_QK_RAW, "d");
}

/* Rows of keys or values: those that are past, those that are given. */
static void write_split(struct groups *s, const char *name, int out, int past, int64_t columns) {
    struct zt_function_body *b = s->b;
    long long before = s->a.past, keys = s->a.keys;
    zt_function_body_add(b, "dpast_%s = Slice(d%s, [0], [%lld], [3]); d%s = Slice(d%s, [%lld], [%lld], [3])", name,
                         name, before, name, name, before, keys);
    write_flat(s, zt_function_body_text(b, "d%s", name), out, 1, keys - before, columns);
    if (zt_function_body_wants(b, past))
        zt_function_body_add(b, "dpast_%s = Reshape(dpast_%s, %s)", name, name,
                             zt_function_body_dims(b, &zt_out(b->g, b->node, past)->shape));
}

ZT_FUNCTION_BODY(zt_attention_grad_function_body) {
    struct groups s = { .b = b, .flat = zt_in(g, node, ZT_Q)->shape.rank == 3 };
    if (!zt_attention_read(g, node, &s.a, err))
        return false;
    const struct zt_attention *a = &s.a;
    s.group = a->kv_heads ? a->heads / a->kv_heads : 1;
    zt_function_body_names(b,
                           "q, k, v, mask, past_k, past_v, nonpad, dy, dpresent_k, dpresent_v, dqk ->"
                           "dq, dk, dv, dpast_k, dpast_v, dmask");
    write_heads(&s, "q", "q", s.group, a->queries, a->size);
    write_rows(&s, "k", "k", "past_k", a->size);
    write_rows(&s, "v", "v", "past_v", a->v_size);
    if (given(&s, ZT_Y))
        write_heads(&s, "dy", "dy", s.group, a->queries, a->v_size);
    write_weights(&s);
    write_scores(&s);
    zt_function_body_add(b, "dq = scale * MatMul(d, k)");
    zt_function_body_add(b, "dk = scale * ReduceSum(MatMul(Transpose<perm=[0, 1, 2, 4, 3]>(d), q), [2]); dv = 0 * v");
    if (given(&s, ZT_Y))
        zt_function_body_add(b, "dv = ReduceSum(MatMul(Transpose<perm=[0, 1, 2, 4, 3]>(p), dy), [2])");
    if (given(&s, ZT_PRESENT_K))
        zt_function_body_add(b, "dk = dk + Reshape(dpresent_k, %s)", five(&s, 1, a->keys, a->size));
    if (given(&s, ZT_PRESENT_V))
        zt_function_body_add(b, "dv = dv + Reshape(dpresent_v, %s)", five(&s, 1, a->keys, a->v_size));
    write_flat(&s, "dq", ZT_DQ, s.group, a->queries, a->size);
    write_split(&s, "k", ZT_DK, ZT_DPAST_K, a->size);
    write_split(&s, "v", ZT_DV, ZT_DPAST_V, a->v_size);
    return true;
}

/* ---- rotary embedding: the gradient of the caches ---- */

enum { X, COS, SIN, POSITION };

/* x and dy as pairs of columns, [batch, heads, rows, half] each: NAME_1, NAME_2 */
static void write_pairs(struct zt_function_body *b, const char *name, int64_t heads, int64_t half) {
    const struct zt_shape *x = &zt_in(b->g, b->node, X)->shape;
    if (x->rank == 3)
        zt_function_body_add(b, "%s = Transpose<perm=[0, 2, 1, 3]>(Reshape(%s, [%lld, %lld, %lld, -1]))", name, name,
                             (long long)x->dim[0], (long long)x->dim[1], (long long)heads);
    zt_function_body_add(b, "%s = Slice(%s, [0], [%lld], [3])", name, name, 2 * (long long)half);
    if (zt_attr_int(b->g->nodes[b->node], "interleaved", 0))
        zt_function_body_add(b, "%s_1 = Slice(%s, [0], [%lld], [3], [2]); %s_2 = Slice(%s, [1], [%lld], [3], [2])",
                             name, name, 2 * (long long)half, name, name, 2 * (long long)half);
    else
        zt_function_body_add(b, "%s_1, %s_2 = Split<axis=3, num_outputs=2>(%s)", name, name, name);
}

/* The sum over all heads, and over positions that share a row of the cache. */
static void write_cache(struct zt_function_body *b, const char *to, const char *each, int64_t half) {
    const struct zt_shape *cache = &zt_in(b->g, b->node, COS)->shape;
    zt_function_body_add(b, "%s = Reshape(ReduceSum(%s, [1]), [-1, %lld])", to, each, (long long)half);
    if (zt_in(b->g, b->node, POSITION))
        zt_function_body_add(b, "%s = ScatterND<reduction=\"add\">(Expand(0, %s), Reshape(position, [-1, 1]), %s)", to,
                             zt_function_body_dims(b, cache), to);
    else
        zt_function_body_add(b, "%s = Reshape(%s, %s)", to, to, zt_function_body_dims(b, cache));
}

ZT_FUNCTION_BODY(zt_rotary_cache_grad_function_body) {
    (void)err;
    const struct zt_shape *cache = &zt_in(g, node, COS)->shape;
    int64_t half = cache->dim[cache->rank - 1], heads = zt_attr_int(g->nodes[node], "num_heads", 0);
    zt_function_body_names(b, "x, cos, sin, position, dy -> dcos, dsin");
    write_pairs(b, "x", heads, half);
    write_pairs(b, "dy", heads, half);
    write_cache(b, "dcos", "x_1 * dy_1 + x_2 * dy_2", half);
    write_cache(b, "dsin", "x_1 * dy_2 - x_2 * dy_1", half);
    return true;
}
