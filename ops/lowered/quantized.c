/* Operators of integers with scales and zero points, each of which is its float operator between DequantizeLinear and
 * QuantizeLinear of ONNX:
 *
 *     QLinearAdd  QLinearMul  QLinearSigmoid  QLinearLeakyRelu  QLinearSoftmax  QLinearAveragePool
 *     QLinearGlobalAveragePool  QLinearConcat  QLinearWhere
 *
 * QLinearConv and NhwcMaxPool of com.microsoft are QLinearConv and MaxPool of ONNX with channels last.
 *
 * QuantizeLinear and DequantizeLinear of com.microsoft are those of ONNX. onnxruntime computes the products of
 * QLinearMul and the exponentials of QLinearSoftmax otherwise: results may be one step of the scale apart. */
#include "ops/lowered/quantized.h"

int zt_lower_dequantize(struct zt_lowering *l, const int x_scale_zero[3], int axis) {
    const struct zt_attr attr = { .name = "axis", .type = ZT_ATTR_INT, .i = axis };
    return zt_lower(
        l, -1, &(struct zt_expand_node){ "DequantizeLinear", x_scale_zero, x_scale_zero[2] < 0 ? 2 : 3, &attr, 1 });
}

void zt_lower_quantize(struct zt_lowering *l, int y, int scale, int zero, enum zt_dtype type) {
    const struct zt_attr attrs[] = { { .name = "axis", .type = ZT_ATTR_INT, .i = 1 },
                                     { .name = "output_dtype", .type = ZT_ATTR_INT, .i = type } };
    zt_lower(l, l->n->out[0],
             &(struct zt_expand_node){ "QuantizeLinear", (const int[]){ y, scale, zero }, zero < 0 ? 2 : 3, attrs,
                                       zero < 0 ? 2 : 1 });
}

/* Inputs `first`, first + 1 and first + 2: integers, their scale, their zero point. */
static int operand(struct zt_lowering *l, int first) {
    return zt_lower_dequantize(
        l, (const int[]){ zt_lower_in(l, first), zt_lower_in(l, first + 1), zt_lower_in(l, first + 2) }, 1);
}

/* The result y with inputs `scale` and scale + 1; without a zero point in the type of input 0. */
static void result(struct zt_lowering *l, int y, int scale) {
    zt_lower_quantize(l, y, zt_lower_in(l, scale), zt_lower_in(l, scale + 1), zt_lower_first(l)->dtype);
}

/* ---- of two operands ---- */

static void binary(struct zt_lowering *l, const char *op) {
    if (!zt_lower_needs(l, (const int[]){ 0, 1, 3, 4, 6, -1 }))
        return;
    const int a = operand(l, 0), b = operand(l, 3);
    result(l, ZT_LOWER(l, -1, op, a, b), 6);
}

static void add(struct zt_lowering *l) {
    binary(l, "Add");
}

static void mul(struct zt_lowering *l) {
    binary(l, "Mul");
}

static void where(struct zt_lowering *l) {
    const int x = operand(l, 1), y = operand(l, 4);
    result(l, ZT_LOWER(l, -1, "Where", l->n->in[0], x, y), 7);
}

/* ---- of one operand ---- */

/* Inputs: integers, scale and zero point, then those of the result. */
static bool is_unary(struct zt_lowering *l) {
    return zt_lower_needs(l, (const int[]){ 0, 1, 3, -1 });
}

static void sigmoid(struct zt_lowering *l) {
    if (is_unary(l))
        result(l, ZT_LOWER(l, -1, "Sigmoid", operand(l, 0)), 3);
}

static void leaky_relu(struct zt_lowering *l) {
    const struct zt_attr alpha = { .name = "alpha", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(l->n, "alpha", 0.01F) };
    if (is_unary(l))
        result(l, ZT_LOWER_WITH(l, -1, "LeakyRelu", &alpha, 1, operand(l, 0)), 3);
}

/* Before opset 13 over all axes from `axis` on. */
static void softmax(struct zt_lowering *l) {
    int axis;
    if (!is_unary(l) || !zt_lower_axis(l, zt_attr_int(l->n, "axis", -1), &axis))
        return;
    const struct zt_attr along = { .name = "axis", .type = ZT_ATTR_INT, .i = axis };
    const int x = operand(l, 0);
    result(l,
           zt_attr_int(l->n, "opset", 0) < 13 ? zt_lower_softmax(l, -1, x, axis)
                                              : ZT_LOWER_WITH(l, -1, "Softmax", &along, 1, x),
           3);
}

/* ---- convolution and pools ---- */

/* [batch, channels, ..] as [batch, .., channels], or the reverse. */
static int transposed(struct zt_lowering *l, int out, int value, bool to_last) {
    const int rank = zt_lower_first(l)->shape.rank;
    int64_t *perm = ZT_NEW_N(l->g->arena, int64_t, ZT_MAX_RANK);
    for (int k = 1; k < rank; k++)
        perm[k] = to_last ? k % (rank - 1) + 1 : k == 1 ? rank - 1 : k - 1;
    const struct zt_attr attr = { .name = "perm", .type = ZT_ATTR_INTS, .count = rank, .ints = perm };
    return ZT_LOWER_WITH(l, out, "Transpose", &attr, 1, value);
}

static int channels(struct zt_lowering *l, int value, bool to_last) {
    return zt_attr_int(l->n, "channels_last", 0) ? transposed(l, -1, value, to_last) : value;
}

static bool has_channels(struct zt_lowering *l) {
    if (zt_lower_first(l)->shape.rank < 3)
        ZT_LOWER_FAIL(l, "wants an input of at least 3 axes");
    return !l->failed;
}

static void conv(struct zt_lowering *l) {
    static const char *const names[] = { "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", NULL };
    const bool last = zt_attr_int(l->n, "channels_last", 0);
    int count, in[9];
    const struct zt_attr *attrs = zt_lower_attrs(l, names, &count);
    if (!has_channels(l))
        return;
    for (int i = 0; i < l->n->in_count; i++)
        in[i] = i ? l->n->in[i] : channels(l, l->n->in[0], false);
    const int y = zt_lower(l, last ? -1 : l->n->out[0],
                           &(struct zt_expand_node){ "QLinearConv", in, l->n->in_count, attrs, count });
    if (last)
        transposed(l, l->n->out[0], y, true);
}

static void max_pool(struct zt_lowering *l) {
    static const char *const names[] = {
        "auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides", NULL
    };
    int count;
    const struct zt_attr *attrs = zt_lower_attrs(l, names, &count);
    if (has_channels(l))
        transposed(l, l->n->out[0],
                   ZT_LOWER_WITH(l, -1, "MaxPool", attrs, count, transposed(l, -1, l->n->in[0], false)), true);
}

static void pool(struct zt_lowering *l, const char *op, const char *const *names) {
    int count;
    const struct zt_attr *attrs = zt_lower_attrs(l, names, &count);
    if (!is_unary(l) || !has_channels(l))
        return;
    const int x = channels(l, operand(l, 0), false);
    result(l, channels(l, ZT_LOWER_WITH(l, -1, op, attrs, count, x), true), 3);
}

static void average_pool(struct zt_lowering *l) {
    static const char *const names[] = { "auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads",
                                         "strides",  NULL };
    pool(l, "AveragePool", names);
}

static void global_average_pool(struct zt_lowering *l) {
    static const char *const names[] = { NULL };
    pool(l, "GlobalAveragePool", names);
}

/* ---- QLinearConcat: the scale and zero point of the result, then three inputs for each operand ---- */

static void concat(struct zt_lowering *l) {
    const struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = zt_attr_int(l->n, "axis", 0) };
    const int count = (l->n->in_count - 2) / 3;
    int *parts = ZT_NEW_N(l->g->arena, int, count + 1);
    if (l->n->in_count != 2 + 3 * count || count < 1) {
        ZT_LOWER_FAIL(l, "wants a scale, a zero point, and three inputs for each operand");
        return;
    }
    for (int i = 0; i < count && zt_lower_needs(l, (const int[]){ 2 + 3 * i, 3 + 3 * i, -1 }); i++)
        parts[i] = operand(l, 2 + 3 * i);
    result(l, zt_lower(l, -1, &(struct zt_expand_node){ "Concat", parts, count, &axis, 1 }), 0);
}

/* ---- QuantizeLinear, DequantizeLinear ---- */

static void same(struct zt_lowering *l, const char *op) {
    static const char *const names[] = { "axis", NULL };
    int count;
    const struct zt_attr *attrs = zt_lower_attrs(l, names, &count);
    zt_lower(l, l->n->out[0], &(struct zt_expand_node){ op, l->n->in, l->n->in_count, attrs, count });
}

static void quantize(struct zt_lowering *l) {
    same(l, "QuantizeLinear");
}

static void dequantize(struct zt_lowering *l) {
    same(l, "DequantizeLinear");
}

/* ---- rows ---- */

ZT_LOWERED(add)
ZT_LOWERED(mul)
ZT_LOWERED(where)
ZT_LOWERED(sigmoid)
ZT_LOWERED(leaky_relu)
ZT_LOWERED(softmax)
ZT_LOWERED(conv)
ZT_LOWERED(max_pool)
ZT_LOWERED(average_pool)
ZT_LOWERED(global_average_pool)
ZT_LOWERED(concat)
ZT_LOWERED(quantize)
ZT_LOWERED(dequantize)

static const struct zt_attr_spec alpha_attrs[] = { { "alpha", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec softmax_attrs[] = { { "axis", ZT_ATTR_INT }, { "opset", ZT_ATTR_INT, true }, { 0 } };
static const struct zt_attr_spec pool_attrs[] = { { "auto_pad", ZT_ATTR_STRING },
                                                  { "ceil_mode", ZT_ATTR_INT },
                                                  { "channels_last", ZT_ATTR_INT },
                                                  { "count_include_pad", ZT_ATTR_INT },
                                                  { "kernel_shape", ZT_ATTR_INTS, true },
                                                  { "pads", ZT_ATTR_INTS },
                                                  { "strides", ZT_ATTR_INTS },
                                                  { 0 } };
static const struct zt_attr_spec max_pool_attrs[] = { { "auto_pad", ZT_ATTR_STRING },
                                                      { "ceil_mode", ZT_ATTR_INT },
                                                      { "dilations", ZT_ATTR_INTS },
                                                      { "kernel_shape", ZT_ATTR_INTS, true },
                                                      { "pads", ZT_ATTR_INTS },
                                                      { "strides", ZT_ATTR_INTS },
                                                      { 0 } };
static const struct zt_attr_spec conv_attrs[] = { { "auto_pad", ZT_ATTR_STRING },   { "channels_last", ZT_ATTR_INT },
                                                  { "dilations", ZT_ATTR_INTS },    { "group", ZT_ATTR_INT },
                                                  { "kernel_shape", ZT_ATTR_INTS }, { "pads", ZT_ATTR_INTS },
                                                  { "strides", ZT_ATTR_INTS },      { 0 } };
static const struct zt_attr_spec global_attrs[] = { { "channels_last", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec concat_attrs[] = { { "axis", ZT_ATTR_INT, true }, { 0 } };
static const struct zt_attr_spec axis_attrs[] = { { "axis", ZT_ATTR_INT }, { 0 } };

enum {
    BYTES = ZT_MICROSOFT_BYTES,
    FLOAT = ZT_BIT(ZT_FLOAT),
    FLOATS = FLOAT | ZT_BIT(ZT_FLOAT16),
    INTEGERS = BYTES | ZT_BIT(ZT_INT16) | ZT_BIT(ZT_UINT16) | ZT_BIT(ZT_INT4) | ZT_BIT(ZT_UINT4),
};

#define UNARY_ROW(id, NAME, EXPAND, ATTRS)                                                                             \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "com.microsoft",                                                                                     \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(2, 5),                                                                                              \
        .in_types = { BYTES, FLOAT, BYTES, FLOAT, BYTES },                                                             \
        .same_type = 1 << 2 | 1 << 4,                                                                                  \
        .attrs = ATTRS,                                                                                                \
        .scale_in = 1 << 1 | 1 << 3,                                                                                   \
        .expand = EXPAND##_expand,                                                                                     \
    };
#define BINARY_ROW(id, NAME, EXPAND)                                                                                   \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "com.microsoft",                                                                                     \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(2, 8),                                                                                              \
        .in_types = { BYTES, FLOAT, BYTES, BYTES, FLOAT, BYTES, FLOAT, BYTES },                                        \
        .same_type = 1 << 2 | 1 << 3 | 1 << 5 | 1 << 7,                                                                \
        .scale_in = 1 << 1 | 1 << 4 | 1 << 6,                                                                          \
        .expand = EXPAND##_expand,                                                                                     \
    };
#define LINEAR_ROW(id, NAME, EXPAND, X, SCALE, ZERO)                                                                   \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "com.microsoft",                                                                                     \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(2, 3),                                                                                              \
        .in_types = { X, SCALE, ZERO },                                                                                \
        .attrs = axis_attrs,                                                                                           \
        .scale_in = 1 << 1,                                                                                            \
        .expand = EXPAND##_expand,                                                                                     \
    };

UNARY_ROW(qlinear_sigmoid, "QLinearSigmoid", sigmoid, NULL)
UNARY_ROW(qlinear_leaky_relu, "QLinearLeakyRelu", leaky_relu, alpha_attrs)
UNARY_ROW(qlinear_softmax, "QLinearSoftmax", softmax, softmax_attrs)
UNARY_ROW(qlinear_average_pool, "QLinearAveragePool", average_pool, pool_attrs)
UNARY_ROW(qlinear_global_average_pool, "QLinearGlobalAveragePool", global_average_pool, global_attrs)
BINARY_ROW(qlinear_add, "QLinearAdd", add)
BINARY_ROW(qlinear_mul, "QLinearMul", mul)
LINEAR_ROW(microsoft_quantize, "QuantizeLinear", quantize, FLOATS, FLOATS, INTEGERS)
LINEAR_ROW(microsoft_dequantize, "DequantizeLinear", dequantize, INTEGERS | ZT_BIT(ZT_INT32), FLOATS,
           INTEGERS | ZT_BIT(ZT_INT32))

const struct zt_op zt_op_microsoft_qlinear_conv = {
    .name = "QLinearConv",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(8, 9),
    .in_types = { BYTES, FLOAT, BYTES, BYTES, FLOAT, BYTES, FLOAT, BYTES | ZT_BIT(ZT_INT32) },
    .same_type = 1 << 2,
    .attrs = conv_attrs,
    .no_grad_in = 0x1ff,
    .expand = conv_expand,
};
const struct zt_op zt_op_nhwc_max_pool = {
    .name = "NhwcMaxPool",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .in_types = { BYTES },
    .attrs = max_pool_attrs,
    .no_grad_in = 1 << 0,
    .expand = max_pool_expand,
};
const struct zt_op zt_op_qlinear_where = {
    .name = "QLinearWhere",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(9, 9),
    .in_types = { ZT_BIT(ZT_BOOL), BYTES, FLOAT, BYTES, BYTES, FLOAT, BYTES, BYTES | FLOAT },
    .no_grad_in = 1 << 0,
    .scale_in = 1 << 2 | 1 << 5 | 1 << 7,
    .expand = where_expand,
};
const struct zt_op zt_op_qlinear_concat = {
    .name = "QLinearConcat",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(2, 5),
    .flags = ZT_OP_VARIADIC,
    .in_types = { FLOAT, BYTES, BYTES | FLOAT },
    .attrs = concat_attrs,
    .scale_in = 0x49249249, /* 0, 3, 6, .. */
    .expand = concat_expand,
};
