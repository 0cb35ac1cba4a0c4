#include "ops/kernel/shape.h"

#include <string.h>

bool zt_infer_first(struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    const struct zt_value *x = zt_in(g, node, 0);
    zt_set_out(g, node, 0, x->dtype, &x->shape);
    return true;
}

static bool infer_broadcast(struct zt_graph *g, int node, enum zt_dtype dtype, struct zt_err *err) {
    struct zt_shape shape = { 0 };
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *x = zt_in(g, node, i);
        if (x && !zt_broadcast(g, node, &shape, &x->shape, &shape, err))
            return false;
    }
    zt_set_out(g, node, 0, dtype, &shape);
    return true;
}

bool zt_infer_broadcast(struct zt_graph *g, int node, struct zt_err *err) {
    return infer_broadcast(g, node, zt_in(g, node, 0)->dtype, err);
}

bool zt_infer_broadcast_bool(struct zt_graph *g, int node, struct zt_err *err) {
    return infer_broadcast(g, node, ZT_BOOL, err);
}

bool zt_ops_ints(const struct zt_graph *g, int node, struct zt_int_source from, const struct zt_int_list *to,
                 struct zt_err *err) {
    *to->count = -1;
    if (from.in >= 0 && zt_in(g, node, from.in))
        return zt_known_ints(g, node, from.in, to, err);
    const struct zt_attr *a = from.attr ? zt_node_attr(g->nodes[node], from.attr) : NULL;
    if (!a)
        return true;
    if (a->count > to->room)
        return zt_node_fail(g, node, err, "attribute \"%s\" has %d numbers, at most %d are taken", from.attr, a->count,
                            to->room);
    for (int i = 0; i < a->count; i++)
        to->at[i] = a->ints[i];
    *to->count = a->count;
    return true;
}

bool zt_ops_axes(const struct zt_graph *g, int node, struct zt_int_source from, int rank, struct zt_axis_set *to,
                 struct zt_err *err) {
    int64_t axes[ZT_MAX_RANK];
    *to = (struct zt_axis_set){ 0 };
    if (!zt_ops_ints(g, node, from, &(struct zt_int_list){ axes, ZT_MAX_RANK, &to->count }, err))
        return false;
    for (int i = 0; i < to->count; i++) {
        int axis;
        if (!zt_axis(g, node, axes[i], rank, &axis, err))
            return false;
        if (to->has[axis])
            return zt_node_fail(g, node, err, "axis %d is named twice", axis);
        to->has[axis] = true;
    }
    return true;
}

bool zt_ops_rank(const struct zt_graph *g, int node, int rank, struct zt_err *err) {
    if (rank > ZT_MAX_RANK)
        return zt_node_fail(g, node, err, "its result would have %d axes, at most %d are supported", rank, ZT_MAX_RANK);
    return true;
}

static const int64_t largest = INT64_C(1) << 62;

bool zt_ops_dim_product(const struct zt_graph *g, int node, int64_t a, int64_t b, int64_t *to, struct zt_err *err) {
    if (__builtin_mul_overflow(a, b, to) || *to > largest)
        return zt_node_fail(g, node, err, "an axis of its result would be %lld * %lld", (long long)a, (long long)b);
    return true;
}

bool zt_ops_dim_sum(const struct zt_graph *g, int node, int64_t a, int64_t b, int64_t *to, struct zt_err *err) {
    if (__builtin_add_overflow(a, b, to) || *to > largest)
        return zt_node_fail(g, node, err, "an axis of its result would be %lld + %lld", (long long)a, (long long)b);
    return true;
}

bool zt_run_copy(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    size_t bytes = (size_t)zt_shape_count(&call->in[0].shape) * zt_dtype_bytes(call->in[0].dtype);
    if (bytes && call->out[0].data != call->in[0].data)
        memcpy(call->out[0].data, call->in[0].data, bytes);
    return true;
}

void zt_broadcast_steps(const struct zt_shape *shape, const struct zt_shape *of, int64_t step[ZT_MAX_RANK]) {
    int64_t stride[ZT_MAX_RANK];
    zt_shape_strides(of, stride);
    int shift = shape->rank - of->rank;
    for (int k = 0; k < shape->rank; k++)
        step[k] = k < shift || of->dim[k - shift] == 1 ? 0 : stride[k - shift];
}

bool zt_next_index(const struct zt_shape *shape, int64_t index[ZT_MAX_RANK]) {
    for (int k = shape->rank - 1; k >= 0; k--) {
        if (++index[k] < shape->dim[k])
            return true;
        index[k] = 0;
    }
    return false;
}

int64_t zt_dims(const struct zt_shape *shape, int from, int to) {
    int64_t n = 1;
    for (int k = from; k < to; k++)
        n *= shape->dim[k];
    return n;
}

bool zt_grad_reshape(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int x = zt_grad_graph(b)->nodes[node]->in[0];
    if (zt_grad_wanted(b, node, 0))
        zt_grad_give(b, node, 0, zt_emit_reshape_like(b, zt_grad_out(b, node, 0), x));
    return true;
}

int zt_emit_own_ints(struct zt_grad *b, const char *op_type, const int *in, int in_count, const struct zt_node *like,
                     const struct zt_ints *lists) {
    struct zt_attr attr[8];
    int count = 0, out;
    for (; lists[count].name && count < 8; count++) {
        size_t bytes = (size_t)lists[count].count * sizeof(int64_t);
        attr[count] = (struct zt_attr){ .name = lists[count].name,
                                        .type = ZT_ATTR_INTS,
                                        .count = lists[count].count,
                                        .ints = zt_arena_copy(zt_grad_graph(b)->arena, lists[count].values, bytes) };
    }
    return zt_emit_node(b, &(struct zt_emission){ op_type, "ztrain", in, in_count, like, attr, count }, &out, 1) ? out
                                                                                                                 : -1;
}

int zt_emit_cast(struct zt_grad *b, int value, enum zt_dtype dtype) {
    if (value < 0 || zt_grad_graph(b)->values[value]->dtype == dtype)
        return value;
    struct zt_attr to = { .name = "to", .type = ZT_ATTR_INT, .i = dtype };
    int out;
    return zt_emit_node(b, &(struct zt_emission){ "Cast", "", &value, 1, NULL, &to, 1 }, &out, 1) ? out : -1;
}

const struct zt_shape *zt_grad_in_shape(struct zt_grad *b, int node, int in) {
    return &zt_in(zt_grad_graph(b), node, in)->shape;
}

enum zt_dtype zt_grad_dtype(struct zt_grad *b, int node) {
    return zt_out(zt_grad_graph(b), node, 0)->dtype;
}
