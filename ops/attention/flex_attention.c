/* FlexAttention (ai.onnx.preview, experimental): attention whose scores and weights pass through graphs of the node.
 *
 *     y = prob_mod(softmax(score_mod(scale q k^T))) v        q [batch, heads, queries, size]; k, v [batch, kv_heads,
 * ..]
 *
 * Scores and weights have the type softmax_precision: by default double for double, float otherwise. Query head h reads
 * head h / (heads / kv_heads) of keys and values. A node without graphs becomes Attention; with graphs it becomes
 * products, a Softmax and copies of the graphs, in which the pattern of fuse_attention.c finds scales and masks. */
#include "graph/passes/lower.h"
#include "ops/attention/attention.h"
#include "ops/kernel/shape.h"

#include <math.h>
#include <string.h>

/* The node's shapes and attributes. */
struct flex {
    int64_t batch, heads, kv_heads, queries, keys, size, v_size;
    double scale;
    enum zt_dtype dtype, precision; /* of the inputs; of scores and weights */
};

static bool wants(const struct zt_expansion *x, int in, const char *wanted, struct zt_err *err) {
    return zt_attention_shape_fail(x->g, x->node, zt_in(x->g, x->node, in), wanted, err);
}

static bool read_shapes(const struct zt_expansion *x, struct flex *f, struct zt_err *err) {
    const struct zt_shape *q = &zt_in(x->g, x->node, ZT_Q)->shape, *k = &zt_in(x->g, x->node, ZT_K)->shape,
                          *v = &zt_in(x->g, x->node, ZT_V)->shape;
    if (q->rank != 4)
        return wants(x, ZT_Q, "[batch, heads, queries, size]", err);
    *f = (struct flex){ .batch = q->dim[0], .heads = q->dim[1], .queries = q->dim[2], .size = q->dim[3] };
    if (k->rank != 4 || k->dim[0] != f->batch || k->dim[3] != f->size || k->dim[1] < 1 || f->heads % k->dim[1])
        return wants(x, ZT_K, "[batch, a part of the heads, keys, size] as of the queries", err);
    f->kv_heads = k->dim[1];
    f->keys = k->dim[2];
    if (v->rank != 4 || v->dim[0] != f->batch || v->dim[1] != f->kv_heads || v->dim[2] != f->keys)
        return wants(x, ZT_V, "batch, heads and rows of the keys", err);
    f->v_size = v->dim[3];
    return true;
}

static bool read_attrs(const struct zt_expansion *x, struct flex *f, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    f->dtype = zt_in(x->g, x->node, ZT_Q)->dtype;
    const int64_t precision = zt_attr_int(n, "softmax_precision", f->dtype == ZT_DOUBLE ? ZT_DOUBLE : ZT_FLOAT);
    if (precision < 0 || precision >= ZT_DTYPES || !zt_dtype_in((enum zt_dtype)precision, ZT_ANY_FLOAT))
        return zt_node_fail(x->g, x->node, err, "softmax_precision is %lld, which is no float type",
                            (long long)precision);
    f->precision = (enum zt_dtype)precision;
    f->scale = (double)zt_attr_float(n, "scale", f->size > 0 ? (float)(1 / sqrt((double)f->size)) : 1);
    return true;
}

static bool check_graph(const struct zt_expansion *x, const char *name, struct zt_err *err) {
    const struct zt_graph *body = zt_node_attr(x->g->nodes[x->node], name) ? zt_expand_subgraph(x, name) : NULL;
    return !body || (body->input_count == 1 && body->output_count == 1) ||
           zt_node_fail(x->g, x->node, err, "%s has %d inputs and %d outputs, wants 1 and 1", name, body->input_count,
                        body->output_count);
}

/* ---- nodes ---- */

/* A node with one new output, whose id it returns; -1 on failure. */
static int emit(struct zt_expansion *x, const struct zt_expand_node *node, struct zt_err *err) {
    int out = -1;
    return zt_expand_emit(x, node, &out, 1, err) ? out : -1;
}

static int emit_two(struct zt_expansion *x, const char *op, int a, int b, struct zt_err *err) {
    return a < 0 || b < 0 ? -1 : emit(x, &(struct zt_expand_node){ op, (int[]){ a, b }, 2 }, err);
}

/* `value`, of type `from`, as `to`. */
static int emit_cast(struct zt_expansion *x, int value, enum zt_dtype from, enum zt_dtype to, struct zt_err *err) {
    const struct zt_attr type = { .name = "to", .type = ZT_ATTR_INT, .i = to };
    if (value < 0 || from == to)
        return value;
    return emit(x, &(struct zt_expand_node){ "Cast", &value, 1, &type, 1 }, err);
}

static int emit_shaped(struct zt_expansion *x, const char *op, int value, const int64_t *dims, int rank,
                       struct zt_err *err) {
    return emit_two(x, op, value, zt_graph_add_ints(x->g, NULL, dims, rank), err);
}

/* Keys or values, [batch, kv_heads, keys, columns], for every head of queries. */
static int emit_repeated(struct zt_expansion *x, const struct flex *f, int value, int64_t columns, struct zt_err *err) {
    const int64_t group = f->heads / f->kv_heads;
    const int64_t one[] = { f->batch, f->kv_heads, 1, f->keys, columns };
    const int64_t all[] = { f->batch, f->kv_heads, group, f->keys, columns };
    const int64_t joined[] = { f->batch, f->heads, f->keys, columns };
    if (group == 1 || zt_dims(&(struct zt_shape){ 4, { joined[0], joined[1], joined[2], joined[3] } }, 0, 4) == 0)
        return group == 1 ? value : emit_shaped(x, "Expand", value, joined, 4, err);
    return emit_shaped(x, "Reshape",
                       emit_shaped(x, "Expand", emit_shaped(x, "Reshape", value, one, 5, err), all, 5, err), joined, 4,
                       err);
}

static int emit_scores(struct zt_expansion *x, const struct flex *f, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const struct zt_attr perm = { .name = "perm",
                                  .type = ZT_ATTR_INTS,
                                  .ints = zt_arena_copy(x->g->arena, (int64_t[]){ 0, 1, 3, 2 }, 4 * sizeof(int64_t)),
                                  .count = 4 };
    const int q = emit_two(x, "Mul", n->in[ZT_Q], zt_graph_add_float(x->g, NULL, f->dtype, f->scale), err);
    int k = q < 0 ? -1 : emit_repeated(x, f, x->g->nodes[x->node]->in[ZT_K], f->size, err);
    if (k >= 0)
        k = emit(x, &(struct zt_expand_node){ "Transpose", &k, 1, &perm, 1 }, err);
    return emit_cast(x, emit_two(x, "MatMul", q, k, err), f->dtype, f->precision, err);
}

static int emit_softmax(struct zt_expansion *x, int scores, struct zt_err *err) {
    const struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = -1 };
    return scores < 0 ? -1 : emit(x, &(struct zt_expand_node){ "Softmax", &scores, 1, &axis, 1 }, err);
}

static bool emit_result(struct zt_expansion *x, const struct flex *f, int weights, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const struct zt_attr type = { .name = "to", .type = ZT_ATTR_INT, .i = f->dtype };
    const int y = n->out[0];
    const int v = emit_cast(x, emit_repeated(x, f, n->in[ZT_V], f->v_size, err), f->dtype, f->precision, err);
    int in[2] = { weights, v }, out = f->dtype == f->precision ? y : -1;
    if (v < 0 || !zt_expand_emit(x, &(struct zt_expand_node){ "MatMul", in, 2 }, &out, 1, err))
        return false;
    return out == y || zt_expand_emit(x, &(struct zt_expand_node){ "Cast", &out, 1, &type, 1 }, (int[]){ y }, 1, err);
}

/* The whole node as Attention. */
static bool emit_attention(struct zt_expansion *x, const struct flex *f, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const struct zt_attr attrs[] = { { .name = "scale", .type = ZT_ATTR_FLOAT, .f = (float)f->scale },
                                     { .name = "softmax_precision", .type = ZT_ATTR_INT, .i = f->precision } };
    return zt_expand_emit(x, &(struct zt_expand_node){ "Attention", n->in, 3, attrs, 2 }, n->out, 1, err);
}

/* ---- steps: what a graph gives is known after the step that copies it ---- */

/* `value` through graph `name`, or itself without such a graph. Pushes the id to x->values. */
static bool copy_graph(struct zt_expansion *x, const char *name, int value, struct zt_err *err) {
    int out = -1;
    if (value < 0)
        return false;
    if (!zt_node_attr(x->g->nodes[x->node], name))
        out = value;
    else if (!zt_expand_copy(x, name, &value, &out, err))
        return false;
    zt_vec_push(&x->values, out);
    return true;
}

/* Whether the last value has the type and shape of scores. */
static bool check_result(const struct zt_expansion *x, const struct flex *f, const char *name, struct zt_err *err) {
    const struct zt_value *v = x->g->values[x->values.at[x->values.count - 1]];
    const struct zt_shape want = { 4, { f->batch, f->heads, f->queries, f->keys } };
    char text[ZT_SHAPE_TEXT], wanted[ZT_SHAPE_TEXT];
    return (v->dtype == f->precision && zt_shape_equal(&v->shape, &want)) ||
           zt_node_fail(x->g, x->node, err, "%s gives %s %s, wants %s %s as it receives", name, zt_dtype_name(v->dtype),
                        zt_shape_text(&v->shape, text), zt_dtype_name(f->precision), zt_shape_text(&want, wanted));
}

static bool flex_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    struct flex f;
    if (!read_shapes(x, &f, err) || !read_attrs(x, &f, err) || !check_graph(x, "score_mod", err) ||
        !check_graph(x, "prob_mod", err))
        return false;
    x->done = x->step == 2 || (!zt_node_attr(n, "score_mod") && !zt_node_attr(n, "prob_mod"));
    if (x->done && x->step == 0)
        return emit_attention(x, &f, err);
    if (x->step == 0)
        return copy_graph(x, "score_mod", emit_scores(x, &f, err), err);
    const char *before = x->step == 1 ? "score_mod" : "prob_mod";
    const int last = x->values.at[x->values.count - 1];
    if (!check_result(x, &f, before, err))
        return false;
    return x->step == 1 ? copy_graph(x, "prob_mod", emit_softmax(x, last, err), err) : emit_result(x, &f, last, err);
}

static const struct zt_attr_spec attrs[] = { { "prob_mod", ZT_ATTR_GRAPH },
                                             { "scale", ZT_ATTR_FLOAT },
                                             { "score_mod", ZT_ATTR_GRAPH },
                                             { "softmax_precision", ZT_ATTR_INT },
                                             { 0 } };

const struct zt_op zt_op_flex_attention = {
    .name = "FlexAttention",
    .domain = "ai.onnx.preview",
    .since = 1,
    ZT_ONE_OUT(3, 3),
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_TYPE },
    .same_type = 1 << ZT_K | 1 << ZT_V,
    .attrs = attrs,
    .expand = flex_expand,
};
