/* ScatterElements and ScatterND: y = x, and at indices y = y op update. Gradients, with G = gather at the same indices:
 *
 *     none   dx = dy with zeros scattered in    du = G(dy)
 *     add    dx = dy                            du = G(dy)
 *     mul    dx = dy * (ones with u multiplied in)    du = G(dy y) / u
 *     max    dx = s [x = y]                     du = G(s) [u = G(y)]       (min likewise)
 *            with s = dy / (number of x and u that equal y): ties share
 */
#include "ops/movement/kernels.h"
#include "ops/movement/gather.h"

#include "ops/movement/combine.h"

#include <string.h>

static enum zt_combine reduction_of(const struct zt_node *node) {
    enum zt_combine how = zt_combine_named(zt_attr_text(node, "reduction", "none"));
    return how > ZT_COMBINE_MUL && node->opset < 18 ? ZT_COMBINES : how; /* max and min came with opset 18 */
}

static bool check_reduction(struct zt_graph *g, int node, struct zt_err *err) {
    if (reduction_of(g->nodes[node]) == ZT_COMBINES)
        return zt_node_fail(g, node, err, "attribute \"reduction\" is \"%s\", which opset %d does not have",
                            zt_attr_text(g->nodes[node], "reduction", ""), g->nodes[node]->opset);
    return true;
}

static bool check_updates(struct zt_graph *g, int node, const struct zt_shape *want, struct zt_err *err) {
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    const struct zt_shape *updates = &zt_in(g, node, 2)->shape;
    return zt_shape_equal(updates, want) || zt_node_fail(g, node, err, "updates have shape %s, wanted is %s",
                                                         zt_shape_text(updates, s), zt_shape_text(want, t));
}

static bool scatter_elements_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *indices = &zt_in(g, node, 1)->shape;
    return check_reduction(g, node, err) && zt_gather_elements_fit(g, node, x, indices, err) &&
           check_updates(g, node, indices, err) && zt_infer_first(g, node, err);
}

static bool scatter_nd_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_shape shape;
    return check_reduction(g, node, err) && zt_gather_nd_shape(g, node, 0, &shape, err) &&
           check_updates(g, node, &shape, err) && zt_infer_first(g, node, err);
}

/* There are as many updates as indices. Where data say how many (the places of NonZero), the largest number of either
 * may be more than the other has: both get the smaller one. The shape of y depends on neither. */
static bool scatter_nd_bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    struct zt_value *indices = zt_in(g, node, 1), *updates = zt_in(g, node, 2);
    if (!indices->data && indices->shape.rank > 1 && updates->shape.rank > 0) {
        int64_t *a = &indices->shape.dim[0], *b = &updates->shape.dim[0], count = *a < *b ? *a : *b;
        *a = *b = count - (less && count > 0);
    }
    return scatter_nd_infer(g, node, err);
}

/* Updates (input 2) into the copy of the data. */
static struct zt_scatter_reduction into_copy(const struct zt_call *call) {
    const struct zt_view *y = &call->out[0];
    return (struct zt_scatter_reduction){ reduction_of(call->node), y->dtype, y->data, call->in[2].data };
}

static void put_block(const struct zt_call *call, const struct zt_elements *e) {
    const struct zt_scatter_reduction r = into_copy(call);
    zt_gather_combine(&r, e);
}

static bool scatter_elements_run(const struct zt_call *call, struct zt_err *err) {
    zt_run_copy(call, err);
    return zt_elements_each(call, &call->out[0].shape, false, put_block, err);
}

static bool scatter_nd_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_shape *indices = &call->in[1].shape, *y = &call->out[0].shape;
    int64_t slice = zt_gather_slice(y, indices, 0), to;
    int64_t rows = zt_dims(indices, 0, indices->rank - 1);
    const struct zt_scatter_reduction r = into_copy(call);
    zt_run_copy(call, err);
    for (int64_t i = 0; i < rows && slice; i++) {
        if (!zt_gather_tuple(call, y, i, 0, &to, err))
            return false;
        zt_combine_block(&r, to, i * slice, slice);
    }
    return true;
}

/* ---- what other back ends are told ---- */

static bool scatter_elements_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    return zt_gather_describe_elements(g, node, &zt_in(g, node, 0)->shape, reduction_of(g->nodes[node]), to);
}

static bool scatter_nd_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    return zt_gather_describe_tuples(g, node, &zt_in(g, node, 0)->shape, 0, reduction_of(g->nodes[node]), to);
}

/* Floats, int32 and int64 with every reduction; other types are put as they are. */
static bool scatter_supports(const struct zt_graph *g, int node) {
    return reduction_of(g->nodes[node]) == ZT_COMBINE_REPLACE || zt_cuda_numbers(g, node);
}

/* ---- gradients ---- */

/* The op and the one that reads at the same places. */
struct pair {
    const char *scatter, *gather;
};

/* `value` at the indices of the node. */
static int gathered(struct zt_grad *b, int node, const struct pair *p, int value) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = zt_attr_int(n, "axis", 0) };
    int in[2] = { value, n->in[1] }, out;
    bool has_axis = zt_node_attr(n, "axis") != NULL;
    return zt_emit_node(b, &(struct zt_emission){ p->gather, "", in, 2, NULL, &axis, has_axis }, &out, 1) ? out : -1;
}

/* `updates` put into `into` at the indices of the node, with reduction `how` (NULL: the node's). */
static int scattered(struct zt_grad *b, int node, const struct pair *p, int into, int updates, const char *how) {
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    struct zt_attr reduction = { .name = "reduction", .type = ZT_ATTR_STRING, .s = how };
    int in[3] = { into, n->in[1], updates }, out;
    return zt_emit_node(b, &(struct zt_emission){ p->scatter, "", in, 3, n, &reduction, how != NULL }, &out, 1) ? out
                                                                                                                : -1;
}

/* `value` with the shape of `like`, stretched. */
static int filled(struct zt_grad *b, int like, double value) {
    const struct zt_value *v = zt_grad_graph(b)->values[like];
    struct zt_shape shape = v->shape;
    int scalar = zt_emit_float(b, v->dtype, value);
    return ZT_EMIT(b, "Expand", scalar, zt_emit_ints(b, shape.dim, shape.rank));
}

/* Values of a reduction and its gradient. */
struct rule {
    const struct pair *pair;
    enum zt_combine how;
    int x, u, y, dy;
};

static bool is_extreme(const struct rule *r) {
    return r->how == ZT_COMBINE_MAX || r->how == ZT_COMBINE_MIN;
}

static int data_gradient(struct zt_grad *b, int node, const struct rule *r, int share, int same_x) {
    if (is_extreme(r))
        return ZT_EMIT(b, "Mul", share, same_x);
    if (r->how == ZT_COMBINE_REPLACE)
        return scattered(b, node, r->pair, r->dy, filled(b, r->u, 0), NULL);
    if (r->how == ZT_COMBINE_MUL)
        return ZT_EMIT(b, "Mul", r->dy, scattered(b, node, r->pair, filled(b, r->x, 1), r->u, NULL));
    return r->dy;
}

static int update_gradient(struct zt_grad *b, int node, const struct rule *r, int share, int same_u) {
    if (is_extreme(r))
        return ZT_EMIT(b, "Mul", gathered(b, node, r->pair, share), same_u);
    if (r->how == ZT_COMBINE_MUL)
        return ZT_EMIT(b, "Div", gathered(b, node, r->pair, ZT_EMIT(b, "Mul", r->dy, r->y)), r->u);
    return gathered(b, node, r->pair, r->dy);
}

static bool scatter_grad(struct zt_grad *b, int node, const struct pair *p) {
    int dy = zt_grad_out(b, node, 0), share = -1, same_x = -1, same_u = -1;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct rule r = { p, reduction_of(n), n->in[0], n->in[2], n->out[0], dy };
    if (is_extreme(&r)) {
        same_x = zt_emit_cast_like(b, ZT_EMIT(b, "Equal", r.x, r.y), dy);
        same_u = zt_emit_cast_like(b, ZT_EMIT(b, "Equal", r.u, gathered(b, node, p, r.y)), dy);
        share = ZT_EMIT(b, "Div", dy, scattered(b, node, p, same_x, same_u, "add"));
    }
    if (zt_grad_wanted(b, node, 0))
        zt_grad_give(b, node, 0, data_gradient(b, node, &r, share, same_x));
    if (zt_grad_wanted(b, node, 2))
        zt_grad_give(b, node, 2, update_gradient(b, node, &r, share, same_u));
    return true;
}

static bool scatter_elements_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return scatter_grad(b, node, &(const struct pair){ "ScatterElements", "GatherElements" });
}

static bool scatter_nd_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    return scatter_grad(b, node, &(const struct pair){ "ScatterND", "GatherND" });
}

static const struct zt_attr_spec with_axis[] = { { "axis", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec with_reduction[] = { { "reduction", ZT_ATTR_STRING }, { 0 } };
static const struct zt_attr_spec with_both[] = { { "axis", ZT_ATTR_INT }, { "reduction", ZT_ATTR_STRING }, { 0 } };

#define SCATTER_ROW(id, NAME, SINCE, UNTIL, ATTRS, FAMILY, CUDA, BOUND)                                                \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(3, 3),                                                                                              \
        .in_types = { 0, ZT_ANY_INDEX, 0 },                                                                            \
        .same_type = 1 << 2,                                                                                           \
        .attrs = ATTRS,                                                                                                \
        .infer = FAMILY##_infer,                                                                                       \
        .bound = BOUND,                                                                                                \
        .grad = FAMILY##_grad,                                                                                         \
        .no_grad_in = 1 << 1,                                                                                          \
        .body = zt_same_opset_form_body,                                                                               \
        .kernel = { [ZT_REF] = { .run = FAMILY##_run },                                                                \
                    [ZT_CUDA] = ZT_CUDA_AS(CUDA, scatter_supports, FAMILY##_describe) },                               \
    };

SCATTER_ROW(scatter, "Scatter", 9, 0, with_axis, scatter_elements, scatter_elements, NULL)
SCATTER_ROW(scatter_elements_11, "ScatterElements", 11, 15, with_axis, scatter_elements, scatter_elements, NULL)
SCATTER_ROW(scatter_elements, "ScatterElements", 16, 0, with_both, scatter_elements, scatter_elements, NULL)
SCATTER_ROW(scatter_nd_11, "ScatterND", 11, 15, NULL, scatter_nd, scatter_tuples, scatter_nd_bound)
SCATTER_ROW(scatter_nd, "ScatterND", 16, 0, with_reduction, scatter_nd, scatter_tuples, scatter_nd_bound)
