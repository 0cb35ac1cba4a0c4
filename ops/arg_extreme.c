/* ArgMax, ArgMin: the index of the first (select_last_index: last) extreme element along an axis. A NaN wins. */
#include "ops/shape.h"

#include <math.h>

static bool arg_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = &g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    struct zt_shape shape = { 0 };
    int axis;
    if (!zt_axis(g, node, zt_attr_int(n, "axis", 0), x->rank, &axis, err))
        return false;
    if (x->dim[axis] == 0)
        return zt_node_fail(g, node, err, "axis %d has no elements", axis);
    for (int k = 0; k < x->rank; k++)
        if (k != axis)
            shape.dim[shape.rank++] = x->dim[k];
        else if (zt_attr_int(n, "keepdims", 1))
            shape.dim[shape.rank++] = 1;
    zt_set_out(g, node, 0, ZT_INT64, &shape);
    return true;
}

/* Whether element i beats element j; exact for 64-bit integers. */
static bool beats(const struct zt_view *x, int64_t i, int64_t j, bool most) {
    if (zt_dtype_in(x->dtype, ZT_ANY_INT) && x->dtype != ZT_UINT64) {
        int64_t a = zt_load_int(x->dtype, x->data, i), b = zt_load_int(x->dtype, x->data, j);
        return most ? a > b : a < b;
    }
    if (x->dtype == ZT_UINT64) {
        uint64_t a = ((const uint64_t *)x->data)[i], b = ((const uint64_t *)x->data)[j];
        return most ? a > b : a < b;
    }
    double a = zt_load_double(x->dtype, x->data, i), b = zt_load_double(x->dtype, x->data, j);
    if (isnan(a) || isnan(b))
        return !isnan(b);
    return most ? a > b : a < b;
}

static bool arg_run(const struct zt_call *call, bool most) {
    const struct zt_view *x = &call->in[0];
    int64_t axis = zt_attr_int(call->node, "axis", 0), *y = call->out[0].data;
    bool last = zt_attr_int(call->node, "select_last_index", 0) != 0;
    axis += axis < 0 ? x->shape.rank : 0;
    int64_t outer = zt_dims(&x->shape, 0, (int)axis), inner = zt_dims(&x->shape, (int)axis + 1, x->shape.rank);
    int64_t size = x->shape.dim[axis];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t base = o * size * inner + i, best = 0;
            for (int64_t k = 1; k < size; k++) {
                int64_t a = base + k * inner, b = base + best * inner;
                if (last ? !beats(x, b, a, most) : beats(x, a, b, most))
                    best = k;
            }
            y[o * inner + i] = best;
        }
    return true;
}

static bool arg_max_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return arg_run(call, true);
}

static bool arg_min_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return arg_run(call, false);
}

static const struct zt_attr_spec arg_attrs[] = {
    { "axis", ZT_ATTR_INT }, { "keepdims", ZT_ATTR_INT }, { "select_last_index", ZT_ATTR_INT }, { 0 }
};

#define ARG_ROW(id, NAME)                                                                                              \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .in_types = { ZT_ANY_NUMBER },                                                                                 \
        .attrs = arg_attrs,                                                                                            \
        .infer = arg_infer,                                                                                            \
        .kernel = { [ZT_REF] = { .run = id##_run } },                                                                  \
    };

ARG_ROW(arg_max, "ArgMax")
ARG_ROW(arg_min, "ArgMin")
