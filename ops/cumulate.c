/* CumSum and CumProd along an axis given by an input; exclusive: without the element itself, reverse: from the end. */
#include "ops/shape.h"

static bool cumulate_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *axis = zt_in(g, node, 1);
    if (zt_shape_count(&axis->shape) != 1)
        return zt_node_fail(g, node, err, "axis \"%s\" is not a scalar", axis->name);
    return zt_infer_first(g, node, err);
}

struct line {
    int64_t first, step, count;
};

static void run_line(const struct zt_view *x, const struct zt_view *y, const struct line *l, bool product,
                     bool exclusive) {
    double acc = product;
    for (int64_t i = 0; i < l->count; i++) {
        int64_t at = l->first + i * l->step;
        double v = zt_load_double(x->dtype, x->data, at), next = product ? acc * v : acc + v;
        zt_store_double(y->dtype, y->data, at, exclusive ? acc : next);
        acc = next;
    }
}

static void run_line_int(const struct zt_view *x, const struct zt_view *y, const struct line *l, bool product,
                         bool exclusive) {
    uint64_t acc = product;
    for (int64_t i = 0; i < l->count; i++) {
        int64_t at = l->first + i * l->step;
        uint64_t v = (uint64_t)zt_load_int(x->dtype, x->data, at), next = product ? acc * v : acc + v;
        zt_store_int(y->dtype, y->data, at, (int64_t)(exclusive ? acc : next));
        acc = next;
    }
}

static bool cumulate(const struct zt_call *call, bool product, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    bool exclusive = zt_attr_int(call->node, "exclusive", 0) != 0, reverse = zt_attr_int(call->node, "reverse", 0) != 0;
    int axis;
    if (!zt_axis(call->graph, zt_call_node(call), zt_load_int(call->in[1].dtype, call->in[1].data, 0), x->shape.rank,
                 &axis, err))
        return false;
    int64_t inner = zt_dims(&x->shape, axis + 1, x->shape.rank), size = x->shape.dim[axis];
    int64_t lines = size ? zt_shape_count(&x->shape) / size : 0;
    for (int64_t i = 0; i < lines; i++) {
        struct line l = { i / inner * inner * size + i % inner, inner, size };
        if (reverse) {
            l.first += (size - 1) * inner;
            l.step = -inner;
        }
        (zt_dtype_in(x->dtype, ZT_ANY_INT) ? run_line_int : run_line)(x, y, &l, product, exclusive);
    }
    return true;
}

static bool cum_sum_run(const struct zt_call *call, struct zt_err *err) {
    return cumulate(call, false, err);
}

static bool cum_prod_run(const struct zt_call *call, struct zt_err *err) {
    return cumulate(call, true, err);
}

/* CumSum of `value` the other way round. */
static int backwards(struct zt_grad *b, int node, int value) {
    const struct zt_node *n = &zt_grad_graph(b)->nodes[node];
    struct zt_attr reverse = { .name = "reverse", .type = ZT_ATTR_INT, .i = !zt_attr_int(n, "reverse", 0) };
    int in[2] = { value, n->in[1] }, out;
    return zt_emit_node(b, "CumSum", "", in, 2, n, &reverse, 1, &out, 1) ? out : -1;
}

/* y_i = sum of x_j, j up to i    dx_j = sum of dy_i, i from j on */
static bool cum_sum_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    zt_grad_give(b, node, 0, backwards(b, node, zt_grad_out(b, node, 0)));
    return true;
}

/* y_i = product of x_j, j up to i    dx_j = (sum of dy_i y_i, i from j on) / x_j; not defined at zeros */
static bool cum_prod_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int weighted = ZT_EMIT(b, "Mul", zt_grad_out(b, node, 0), zt_grad_graph(b)->nodes[node].out[0]);
    int total = backwards(b, node, weighted);
    zt_grad_give(b, node, 0, ZT_EMIT(b, "Div", total, zt_grad_graph(b)->nodes[node].in[0]));
    return true;
}

static const struct zt_attr_spec cumulate_attrs[] = { { "exclusive", ZT_ATTR_INT }, { "reverse", ZT_ATTR_INT }, { 0 } };

#define CUMULATE_ROW(id, NAME, SINCE)                                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        ZT_ONE_OUT(2, 2),                                                                                              \
        .in_types = { ZT_ANY_NUMBER, ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64) },                                            \
        .attrs = cumulate_attrs,                                                                                       \
        .infer = cumulate_infer,                                                                                       \
        .grad = id##_grad,                                                                                             \
        .no_grad_in = 1 << 1,                                                                                          \
        .kernel = { [ZT_REF] = { .run = id##_run } },                                                                  \
    };

CUMULATE_ROW(cum_prod, "CumProd", 26)
CUMULATE_ROW(cum_sum, "CumSum", 11)
