/* attention: softmax(scale q k^T + mask) v of heads [batch, heads, rows, size] or [batch, rows, size], written as
 * products and a Softmax, becomes Attention.
 *
 * Queries, keys and scores may be scaled. The mask may be added, or select between scores and a number whose
 * exponential is 0; a replacement of NaN in rows that are masked whole may follow. Masks with a gradient are not fused.
 * The Transpose that makes k^T is removed; keys and values that are repeated for several heads of queries are read
 * before the repetition. A constant mask that is true up to the diagonal becomes is_causal. */
#include "graph/passes/fusion/fuse.h"
#include "graph/passes/fusion/pattern.h"
#include "ops/softmax/softmax.h"

#include <math.h>
#include <string.h>

#define PRODUCT                                                                                                        \
    "qk = MatMul((Mul(q, $q_times) | Div(q, $q_over) | q), (Mul(keys, $k_times) | Div(keys, $k_over) | keys))"
#define SCORES  "(Mul(" PRODUCT ", $times) | Div(" PRODUCT ", $over) | " PRODUCT ")"
#define MASKED  "(Add(" SCORES ", bias) | Where(keep, " SCORES ", $low) | Where(drop, $low, " SCORES ") | " SCORES ")"
#define WEIGHTS "p = Softmax(" MASKED ")"
static const char form[] = "MatMul((Where(IsNaN(p), 0, " WEIGHTS ") | " WEIGHTS "), v)";

/* Numbers from here down count as minus infinity in a mask: `lowest`, or, where scores are scaled down and so stay far
 * above it, `low`, which half precision represents. */
static const double lowest = -1e30, low = -9999;

struct attention {
    struct zt_match m;
    const struct zt_op_table *table;
    struct zt_err *err;
    int q, k, v, mask; /* values; mask -1: none */
    bool causal;
    double scale, masked; /* masked: a bias of at most this number masks a score */
};

static const struct zt_shape *shape_of(const struct attention *a, int value) {
    return &a->m.g->values[value]->shape;
}

/* Whether the shape is [.., rows, columns] with the leading axes of `like`. */
static bool has_axes_of(const struct zt_shape *s, const struct zt_shape *like, int64_t rows, int64_t columns) {
    if (s->rank != like->rank || s->dim[s->rank - 2] != rows || s->dim[s->rank - 1] != columns)
        return false;
    for (int k = 0; k < s->rank - 2; k++)
        if (s->dim[k] != like->dim[k])
            return false;
    return true;
}

static bool fits(const struct attention *a) {
    const struct zt_match *m = &a->m;
    int keys = zt_match_value(m, "keys"), result = zt_match_result(m), p = zt_match_value(m, "p");
    int qk = zt_match_value(m, "qk");
    const struct zt_shape *q = shape_of(a, a->q), *kt = shape_of(a, keys), *v = shape_of(a, a->v);
    const struct zt_node *softmax = zt_match_node(m, "p");
    struct zt_axis_slices slices;
    if ((q->rank != 3 && q->rank != 4) || kt->rank != q->rank || v->rank != q->rank)
        return false;
    int64_t rows = q->dim[q->rank - 2], size = q->dim[q->rank - 1], count = kt->dim[kt->rank - 1];
    return zt_dtype_in(m->g->values[a->q]->dtype, ZT_ANY_FLOAT) && size > 0 && has_axes_of(kt, q, size, count) &&
           has_axes_of(v, q, count, v->dim[v->rank - 1]) && has_axes_of(shape_of(a, p), q, rows, count) &&
           has_axes_of(shape_of(a, qk), q, rows, count) &&
           has_axes_of(shape_of(a, result), q, rows, v->dim[v->rank - 1]) &&
           zt_softmax_read(m->g, softmax->index, &slices, a->err) && slices.inner == 1 && slices.length == count;
}

/* ---- the mask ---- */

/* Whether element `i` of a constant mask lets a score through; *exact: unchanged, or not at all. */
static bool lets_through(const struct zt_value *mask, int64_t i, double masked, bool *exact) {
    if (mask->dtype == ZT_BOOL)
        return zt_load_int(ZT_BOOL, mask->data, i) != 0;
    double bias = zt_load_double(mask->dtype, mask->data, i);
    *exact &= bias == 0 || bias <= masked;
    return bias > masked;
}

/* Whether query i of [.., n, n] sees key j where j <= i, for all heads alike. */
static bool is_causal(const struct attention *a, int64_t queries, int64_t keys) {
    const struct zt_value *mask = a->m.g->values[a->mask];
    int rank = mask->shape.rank;
    bool exact = true;
    if (!zt_value_is_constant(mask) || queries != keys || rank < 2 || zt_shape_count(&mask->shape) != queries * keys ||
        mask->shape.dim[rank - 1] != keys || mask->shape.dim[rank - 2] != queries)
        return false;
    for (int64_t i = 0; i < queries * keys && exact; i++)
        if (lets_through(mask, i, a->masked, &exact) != (i % keys <= i / keys))
            return false;
    return exact;
}

/* Whether every row of a constant bool mask is true somewhere. */
static bool rows_see_something(const struct zt_value *mask) {
    int64_t columns = mask->shape.rank > 0 ? mask->shape.dim[mask->shape.rank - 1] : 1;
    bool exact, seen = false;
    if (!zt_value_is_constant(mask))
        return false;
    for (int64_t i = 0; i < zt_shape_count(&mask->shape); i++) {
        seen |= lets_through(mask, i, 0, &exact);
        if (i % columns == columns - 1 && !seen)
            return false;
        seen = seen && i % columns != columns - 1;
    }
    return true;
}

/* Whether `mask` can go to Attention: a number for every key, and nothing that trains. */
static bool mask_fits(const struct attention *a, int mask) {
    const struct zt_shape *s = shape_of(a, mask), *q = shape_of(a, a->q);
    const struct zt_value *v = a->m.g->values[mask];
    return s->rank >= 1 && s->dim[s->rank - 1] == shape_of(a, zt_match_value(&a->m, "keys"))->dim[q->rank - 1] &&
           (v->dtype == ZT_BOOL || v->dtype == a->m.g->values[a->q]->dtype) && !zt_match_trains(&a->m, mask);
}

/* The mask of a Where, true where a score is used. A finite number that replaces scores contributes in rows where all
 * scores are replaced. Such a mask must therefore be true somewhere in every row. */
static bool read_choice(struct attention *a, int keep, int drop) {
    struct zt_graph *g = a->m.g;
    double instead = zt_match_number(&a->m, "low", 0);
    if (!mask_fits(a, keep >= 0 ? keep : drop) || !(instead <= a->masked))
        return false;
    if (keep < 0)
        keep = zt_match_before(&a->m, a->table, &(struct zt_match_node){ "Not", &drop, 1 }, a->err);
    if (keep < 0)
        return false;
    a->mask = keep;
    if (instead == -INFINITY || rows_see_something(g->values[keep]))
        return true;
    if (instead > lowest)
        return false;
    const int in[3] = { keep, zt_graph_add_float(g, NULL, g->values[a->q]->dtype, 0), zt_match_value(&a->m, "low") };
    a->mask = zt_match_before(&a->m, a->table, &(struct zt_match_node){ "Where", in, 3 }, a->err);
    return a->mask >= 0;
}

static bool read_mask(struct attention *a) {
    const struct zt_shape *q = shape_of(a, a->q);
    int bias = zt_match_value(&a->m, "bias"), keep = zt_match_value(&a->m, "keep"),
        drop = zt_match_value(&a->m, "drop");
    a->mask = bias;
    if (keep >= 0 || drop >= 0 ? !read_choice(a, keep, drop) : bias >= 0 && !mask_fits(a, bias))
        return false;
    if (a->mask < 0)
        return true;
    int64_t keys = shape_of(a, zt_match_value(&a->m, "keys"))->dim[q->rank - 1];
    a->causal = is_causal(a, q->dim[q->rank - 2], keys);
    if (a->causal) {
        a->mask = -1;
        return true;
    }
    struct zt_shape s = *shape_of(a, a->mask);
    if (s.rank < 3 || q->rank == 4)
        return true;
    const struct zt_shape heads = { 4, { s.dim[0], 1, s.dim[1], s.dim[2] } }; /* one head each */
    a->mask = zt_match_reshape(&a->m, a->table, a->mask, &heads, a->err);
    return a->mask >= 0;
}

/* ---- keys and values ---- */

/* The node that makes `value`, if it is a `op`. */
static const struct zt_node *maker(const struct attention *a, int value, const char *op) {
    const struct zt_value *v = a->m.g->values[value];
    const struct zt_node *n = v->origin == ZT_FROM_NODE && v->producer >= 0 ? a->m.g->nodes[v->producer] : NULL;
    return n && n->op && !n->op->domain[0] && strcmp(n->op->name, op) == 0 &&
                   n->stage == a->m.g->nodes[a->m.root]->stage
               ? n
               : NULL;
}

/* The value with its last two axes swapped: through the Transpose that made it, or one more. */
static int swap_axes(struct attention *a, int value) {
    int rank = shape_of(a, value)->rank, count;
    int64_t perm[ZT_MAX_RANK];
    const struct zt_node *n = maker(a, value, "Transpose");
    const int64_t *had = n ? zt_attr_ints(n, "perm", &count) : NULL;
    bool sorted = true;
    for (int k = 0; k < rank; k++) {
        int from = k < rank - 2 ? k : 2 * rank - 3 - k;
        perm[k] = !n ? from : had ? had[from] : rank - 1 - from;
        sorted &= perm[k] == k;
    }
    int in = n ? n->in[0] : value;
    if (sorted)
        return in;
    return zt_match_before(
        &a->m, a->table, &(struct zt_match_node){ "Transpose", &in, 1, &(struct zt_match_list){ "perm", perm, rank } },
        a->err);
}

/* k from k^T, whose Transpose may precede a Reshape that only splits or joins the leading axes. */
static int untranspose(struct attention *a, int value) {
    const struct zt_node *n = maker(a, value, "Reshape");
    const struct zt_shape *to = shape_of(a, value), *from = n ? shape_of(a, n->in[0]) : NULL;
    if (!n || from->rank < 2 || !maker(a, n->in[0], "Transpose") ||
        from->dim[from->rank - 1] != to->dim[to->rank - 1] || from->dim[from->rank - 2] != to->dim[to->rank - 2])
        return swap_axes(a, value);
    struct zt_shape shape = *to;
    shape.dim[to->rank - 1] = to->dim[to->rank - 2];
    shape.dim[to->rank - 2] = to->dim[to->rank - 1];
    int k = swap_axes(a, n->in[0]);
    return k < 0 ? -1 : zt_match_reshape(&a->m, a->table, k, &shape, a->err);
}

/* The value [batch, heads / n, rows, size] of which each head is repeated n times to [batch, heads, rows, size]; -1: no
 * repetition. */
static int unrepeat(const struct attention *a, int value) {
    const struct zt_node *joined = maker(a, value, "Reshape");
    const struct zt_node *repeated = joined ? maker(a, joined->in[0], "Expand") : NULL;
    const struct zt_node *split = repeated ? maker(a, repeated->in[0], "Unsqueeze") : NULL;
    if (repeated && !split)
        split = maker(a, repeated->in[0], "Reshape");
    if (!split)
        return -1;
    const struct zt_shape *s = shape_of(a, split->in[0]), *one = shape_of(a, repeated->in[0]);
    const struct zt_shape *all = shape_of(a, joined->in[0]), *to = shape_of(a, value);
    if (s->rank != 4 || to->rank != 4 || all->rank != 5 || one->rank != 5)
        return -1;
    const struct zt_shape wanted_one = { 5, { s->dim[0], s->dim[1], 1, s->dim[2], s->dim[3] } };
    const struct zt_shape wanted_all = { 5, { s->dim[0], s->dim[1], all->dim[2], s->dim[2], s->dim[3] } };
    const struct zt_shape wanted = { 4, { s->dim[0], s->dim[1] * all->dim[2], s->dim[2], s->dim[3] } };
    bool fits = zt_shape_equal(one, &wanted_one) && zt_shape_equal(all, &wanted_all) && zt_shape_equal(to, &wanted);
    return fits ? split->in[0] : -1;
}

static bool read_keys(struct attention *a) {
    a->k = untranspose(a, zt_match_value(&a->m, "keys"));
    int k = a->k >= 0 ? unrepeat(a, a->k) : -1, v = unrepeat(a, a->v);
    if (k >= 0 && v >= 0 && shape_of(a, k)->dim[1] == shape_of(a, v)->dim[1]) {
        a->k = k;
        a->v = v;
    }
    return a->k >= 0;
}

/* ---- the pattern ---- */

static double scale_of(const struct zt_match *m) {
    return zt_match_number(m, "q_times", 1) / zt_match_number(m, "q_over", 1) * zt_match_number(m, "k_times", 1) /
           zt_match_number(m, "k_over", 1) * zt_match_number(m, "times", 1) / zt_match_number(m, "over", 1);
}

static bool fuse_attention(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_err ignored = { 0 };
    struct attention a = { .table = table, .err = &ignored };
    if (!zt_pattern_find(g, node, form, &a.m))
        return false;
    a.q = zt_match_value(&a.m, "q");
    a.v = zt_match_value(&a.m, "v");
    a.scale = scale_of(&a.m);
    a.masked = fabs(a.scale) <= 1 ? low : lowest;
    if (!fits(&a) || !isfinite(a.scale))
        return false;
    a.err = err;
    if (!read_mask(&a) || !read_keys(&a))
        return false;
    const int in[4] = { a.q, a.k, a.v, a.mask };
    int made = zt_match_replace(&a.m, "Attention", in, a.mask >= 0 ? 4 : 3);
    zt_fuse_drop(g, zt_match_value(&a.m, "keys"));
    zt_fuse_drop(g, zt_match_value(&a.m, "v"));
    zt_node_set_float(g, made, "scale", (float)a.scale);
    if (a.causal)
        zt_node_set_int(g, made, "is_causal", 1);
    if (g->values[a.q]->shape.rank == 3) {
        zt_node_set_int(g, made, "q_num_heads", 1);
        zt_node_set_int(g, made, "kv_num_heads", 1);
    }
    return zt_match_done(&a.m, table, made, err);
}

const struct zt_pattern zt_pattern_attention = { "attention", ZT_FUSE_FORWARD, fuse_attention };
