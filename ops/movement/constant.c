/* Tensors made from attributes or shapes: Constant, ConstantOfShape, Shape, Size, Range, EyeLike. No gradient. */
#include "ops/movement/kernels.h"
#include "ops/kernel/shape.h"

#include "ops/kernel/element_blocks.h"

#include <math.h>
#include <string.h>

/* ---- Constant: exactly one of its attributes ---- */

static bool constant_of(const struct zt_node *node, struct zt_tensor *t) {
    const struct zt_attr *a = node->attr_count == 1 ? &node->attr[0] : NULL;
    if (!a)
        return false;
    switch (a->type) {
    case ZT_ATTR_TENSOR:
        *t = a->tensor;
        return zt_dtype_bytes(t->dtype) > 0;
    case ZT_ATTR_FLOAT:
        *t = (struct zt_tensor){ ZT_FLOAT, { 0 }, &a->f };
        return true;
    case ZT_ATTR_INT:
        *t = (struct zt_tensor){ ZT_INT64, { 0 }, &a->i };
        return true;
    case ZT_ATTR_FLOATS:
        *t = (struct zt_tensor){ ZT_FLOAT, { 1, { a->count } }, a->floats };
        return true;
    case ZT_ATTR_INTS:
        *t = (struct zt_tensor){ ZT_INT64, { 1, { a->count } }, a->ints };
        return true;
    default:
        return false;
    }
}

bool zt_constant_tensor(const struct zt_node *node, struct zt_tensor *t) {
    return zt_node_is(node, "Constant") && constant_of(node, t);
}

static bool constant_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_tensor t;
    if (!constant_of(g->nodes[node], &t))
        return zt_node_fail(g, node, err,
                            "wants one of value, sparse_value, value_float, value_floats, value_int, value_ints");
    zt_set_out(g, node, 0, t.dtype, &t.shape);
    return true;
}

static bool constant_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct zt_tensor t;
    constant_of(call->node, &t);
    size_t bytes = (size_t)zt_shape_count(&t.shape) * zt_dtype_bytes(t.dtype);
    if (bytes)
        memcpy(call->out[0].data, t.data, bytes);
    return true;
}

static const struct zt_attr_spec constant_attrs[] = { { "sparse_value", ZT_ATTR_TENSOR },
                                                      { "value", ZT_ATTR_TENSOR },
                                                      { "value_float", ZT_ATTR_FLOAT },
                                                      { "value_floats", ZT_ATTR_FLOATS },
                                                      { "value_int", ZT_ATTR_INT },
                                                      { "value_ints", ZT_ATTR_INTS },
                                                      { 0 } };

/* ---- ConstantOfShape ---- */

static bool constant_of_shape_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_attr *value = zt_node_attr(g->nodes[node], "value");
    struct zt_shape shape;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ 0, NULL },
                     &(struct zt_int_list){ shape.dim, ZT_MAX_RANK, &shape.rank }, err))
        return false;
    for (int k = 0; k < shape.rank; k++)
        if (shape.dim[k] < 0)
            return zt_node_fail(g, node, err, "number %d of the shape is %lld", k, (long long)shape.dim[k]);
    if (value && (zt_shape_count(&value->tensor.shape) != 1 || !zt_dtype_bytes(value->tensor.dtype)))
        return zt_node_fail(g, node, err, "attribute \"value\" is not one number");
    zt_set_out(g, node, 0, value ? value->tensor.dtype : ZT_FLOAT, &shape);
    return true;
}

static bool constant_of_shape_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *y = &call->out[0];
    const struct zt_attr *value = zt_node_attr(call->node, "value");
    size_t bytes = zt_dtype_bytes(y->dtype);
    uint64_t fill = 0;
    if (value)
        memcpy(&fill, value->tensor.data, bytes);
    for (int64_t i = 0, count = zt_shape_count(&y->shape); i < count; i++)
        memcpy(zt_element(y->data, bytes, i), &fill, bytes);
    return true;
}

static const struct zt_attr_spec with_value[] = { { "value", ZT_ATTR_TENSOR }, { 0 } };

/* ---- Shape, Size ---- */

/* The axes [start, end) a Shape node tells of, cut to the rank. */
static void shape_range(const struct zt_node *node, int rank, int *start, int *end) {
    int64_t from = zt_attr_int(node, "start", 0), to = zt_attr_int(node, "end", rank);
    from += from < 0 ? rank : 0;
    to += to < 0 ? rank : 0;
    *start = (int)(from < 0 ? 0 : from > rank ? rank : from);
    *end = (int)(to < *start ? *start : to > rank ? rank : to);
}

static bool shape_infer(struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    int start, end;
    shape_range(g->nodes[node], zt_in(g, node, 0)->shape.rank, &start, &end);
    zt_set_out(g, node, 0, ZT_INT64, &(struct zt_shape){ 1, { end - start } });
    return true;
}

static bool shape_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    int start, end;
    shape_range(call->node, call->in[0].shape.rank, &start, &end);
    for (int k = start; k < end; k++)
        ((int64_t *)call->out[0].data)[k - start] = call->in[0].shape.dim[k];
    return true;
}

static bool size_infer(struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    zt_set_out(g, node, 0, ZT_INT64, &(struct zt_shape){ 0 });
    return true;
}

static bool size_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    *(int64_t *)call->out[0].data = zt_shape_count(&call->in[0].shape);
    return true;
}

static const struct zt_attr_spec shape_attrs[] = { { "start", ZT_ATTR_INT }, { "end", ZT_ATTR_INT }, { 0 } };

/* ---- Range:  y_i = start + i delta while before limit ---- */

static bool range_infer(struct zt_graph *g, int node, struct zt_err *err) {
    double v[3];
    for (int i = 0; i < 3; i++) {
        const struct zt_value *x = zt_in(g, node, i);
        if (zt_shape_count(&x->shape) != 1)
            return zt_node_fail(g, node, err, "\"%s\" is not a scalar", x->name);
        if (!x->data)
            return zt_node_fail(g, node, err, "the shape of its result depends on data: \"%s\" is not constant",
                                x->name);
        v[i] = zt_load_double(x->dtype, x->data, 0);
    }
    double count = ceil((v[1] - v[0]) / v[2]);
    if (!(fabs(count) <= 0x1p40))
        return zt_node_fail(g, node, err, "from %g to %g by %g is no range", v[0], v[1], v[2]);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &(struct zt_shape){ 1, { count > 0 ? (int64_t)count : 0 } });
    return true;
}

static bool range_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *start = &call->in[0], *delta = &call->in[2], *y = &call->out[0];
    const int64_t count = zt_shape_count(&y->shape);
    const uint64_t first = (uint64_t)zt_load_int(start->dtype, start->data, 0);
    const uint64_t by = (uint64_t)zt_load_int(delta->dtype, delta->data, 0);
    const double from = zt_load_double(start->dtype, start->data, 0);
    const double step = zt_load_double(delta->dtype, delta->data, 0);
    const bool ints = zt_dtype_in(y->dtype, ZT_ANY_INT);
    double v[ZT_ELEMENT_BLOCK];
    int64_t w[ZT_ELEMENT_BLOCK];
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        const int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        for (int64_t i = 0; i < n && ints; i++)
            w[i] = (int64_t)(first + (uint64_t)(at + i) * by);
        for (int i = 0; i < n && !ints; i++)
            v[i] = from + ((double)at + i) * step;
        if (ints)
            zt_store_block_int(y->dtype, y->data, at, 1, n, w);
        else
            zt_store_block(y->dtype, y->data, at, 1, n, v);
    }
    return true;
}

static const struct zt_attr_spec with_stash[] = { { "stash_type", ZT_ATTR_INT, .element_type = true }, { 0 } };

/* ---- EyeLike ---- */

static bool eye_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    int64_t dtype = zt_attr_int(g->nodes[node], "dtype", x->dtype);
    if (x->shape.rank != 2)
        return zt_node_fail(g, node, err, "wants a matrix, has %d axes", x->shape.rank);
    if (dtype < 0 || dtype >= ZT_DTYPES || !zt_dtype_in((enum zt_dtype)dtype, ZT_ANY_TYPE))
        return zt_node_fail(g, node, err, "attribute \"dtype\" is %lld, which is not supported", (long long)dtype);
    zt_set_out(g, node, 0, (enum zt_dtype)dtype, &x->shape);
    return true;
}

static bool eye_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *y = &call->out[0];
    const int64_t k = zt_attr_int(call->node, "k", 0), rows = y->shape.dim[0], columns = y->shape.dim[1];
    memset(y->data, 0, (size_t)(rows * columns) * zt_dtype_bytes(y->dtype));
    for (int64_t r = 0; r < rows; r++)
        if (k >= -r && k < columns - r)
            zt_store_int(y->dtype, y->data, r * columns + r + k, 1);
    return true;
}

static const struct zt_attr_spec eye_attrs[] = { { "dtype", ZT_ATTR_INT, .element_type = true },
                                                 { "k", ZT_ATTR_INT },
                                                 { 0 } };

/* ---- rows ---- */

#define MAKER_ROW(id, NAME, SINCE, UNTIL, COUNT, FLAGS, SIZE_IN, TYPES, ATTRS, FAMILY)                                 \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        ZT_ONE_OUT(COUNT, COUNT),                                                                                      \
        .size_in = SIZE_IN,                                                                                            \
        .flags = FLAGS,                                                                                                \
        .in_types = { TYPES, TYPES, TYPES },                                                                           \
        .same_type = (1 << (COUNT)) - 2,                                                                               \
        .attrs = ATTRS,                                                                                                \
        .infer = FAMILY##_infer,                                                                                       \
        .body = zt_same_opset_form_body,                                                                               \
        .kernel = { [ZT_REF] = { .run = FAMILY##_run } },                                                              \
    };

enum { RANGE_TYPES = ZT_ANY_FLOAT | 1 << ZT_INT16 | 1 << ZT_INT32 | 1 << ZT_INT64 };

MAKER_ROW(constant, "Constant", 1, 0, 0, 0, 0, 0, constant_attrs, constant)
MAKER_ROW(constant_of_shape, "ConstantOfShape", 9, 0, 1, 0, 1 << 0, ZT_BIT(ZT_INT64), with_value, constant_of_shape)
MAKER_ROW(eye_like, "EyeLike", 9, 0, 1, ZT_OP_SHAPE_ONLY, 0, 0, eye_attrs, eye)
MAKER_ROW(range_11, "Range", 11, 26, 3, 0, 1 << 1, RANGE_TYPES, NULL, range)
MAKER_ROW(range, "Range", 27, 0, 3, 0, 1 << 1, RANGE_TYPES, with_stash, range)
MAKER_ROW(shape_1, "Shape", 1, 14, 1, ZT_OP_SHAPE_ONLY, 0, ZT_ANY_STORED, NULL, shape)
MAKER_ROW(shape, "Shape", 15, 0, 1, ZT_OP_SHAPE_ONLY, 0, ZT_ANY_STORED, shape_attrs, shape)
MAKER_ROW(size, "Size", 1, 0, 1, ZT_OP_SHAPE_ONLY, 0, ZT_ANY_STORED, NULL, size)
