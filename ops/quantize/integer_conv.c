/* ConvInteger  y = conv(x - x_zero, w - w_zero)                                              int32, wraps
 * QLinearConv  y = clip(round((conv(x - x_zero, w - w_zero) + b) x_scale w_scale / y_scale) + y_zero)
 *
 * Padding counts as x = x_zero. Scale and zero point of w: one number or a number for each output channel. No gradient.
 */
#include "ops/quantize/kernels.h"
#include "ops/quantize/requantize.h"

#include "ops/conv/conv.h"
#include "ops/kernel/shape.h"

struct operands {
    struct zt_quantized_in x, w;
    int bias; /* -1: none */
};
static const struct operands integer = { { 0, -1, 2 }, { 1, -1, 3 }, -1 };
static const struct operands quantized = { { 0, 1, 2 }, { 3, 4, 5 }, 8 };
enum { Y_SCALE = 6, Y_ZERO = 7 };

static bool check_bias(const struct zt_graph *g, int node, const struct zt_conv *c, int bias, struct zt_err *err) {
    const struct zt_value *b = bias < 0 ? NULL : zt_in(g, node, bias);
    char text[ZT_SHAPE_TEXT];
    return !b || (b->shape.rank == 1 && b->shape.dim[0] == c->m) ||
           zt_node_fail(g, node, err, "bias \"%s\" has shape %s, wants [%lld]", b->name, zt_shape_text(&b->shape, text),
                        (long long)c->m);
}

/* Numbers of x have no axis, those of w lie along axis 0. */
static bool check_numbers(const struct zt_graph *g, int node, struct zt_quantized_in in, int axis, struct zt_err *err) {
    const struct zt_shape channels = { 1, { axis < 0 ? 1 : zt_in(g, node, in.at)->shape.dim[0] } };
    return zt_quantized_fits(g, node, in.zero, &channels, axis, err) &&
           (in.scale < 0 || zt_quantized_fits(g, node, in.scale, &channels, axis, err));
}

static bool read(const struct zt_graph *g, int node, const struct operands *o, struct zt_conv *to, struct zt_err *err) {
    return zt_conv_read_shapes(g, node, &zt_in(g, node, o->x.at)->shape, &zt_in(g, node, o->w.at)->shape, to, err) &&
           check_numbers(g, node, o->x, -1, err) && check_numbers(g, node, o->w, 0, err) &&
           check_bias(g, node, to, o->bias, err);
}

static bool infer(struct zt_graph *g, int node, const struct operands *o, enum zt_dtype dtype, struct zt_err *err) {
    struct zt_conv c;
    if (!read(g, node, o, &c, err))
        return false;
    struct zt_shape out = { c.window.axes + 2, { c.n, c.m } };
    for (int a = 0; a < c.window.axes; a++)
        out.dim[a + 2] = c.window.out[a];
    zt_set_out(g, node, 0, dtype, &out);
    return true;
}

static bool integer_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return infer(g, node, &integer, ZT_INT32, err);
}

/* A row has one set of types for the zero point of y and what follows it. */
static bool check_last_types(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *zero = zt_in(g, node, Y_ZERO), *bias = zt_in(g, node, quantized.bias);
    if (zero->dtype == ZT_INT32)
        return zt_node_fail(g, node, err, "\"%s\" has type int32, wants int8 or uint8", zero->name);
    return !bias || bias->dtype == ZT_INT32 ||
           zt_node_fail(g, node, err, "bias \"%s\" has type %s, wants int32", bias->name, zt_dtype_name(bias->dtype));
}

static bool quantized_infer(struct zt_graph *g, int node, struct zt_err *err) {
    return check_last_types(g, node, err) && zt_quantized_out(g, node, Y_SCALE, Y_ZERO, err) &&
           infer(g, node, &quantized, zt_in(g, node, Y_ZERO)->dtype, err);
}

/* ---- reference kernels; workspace: x, w, bias and the sums as doubles ---- */

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    const struct operands *o = p->graph->nodes[p->node]->in_count > Y_ZERO ? &quantized : &integer;
    const struct zt_shape *w = &zt_in(p->graph, p->node, o->w.at)->shape;
    p->workspace_bytes =
        sizeof(double) * (size_t)(zt_shape_count(&zt_in(p->graph, p->node, o->x.at)->shape) + zt_shape_count(w) +
                                  w->dim[0] + zt_shape_count(&zt_out(p->graph, p->node, 0)->shape));
    return true;
}

/* Returns the sums with the bias. */
static double *convolve(const struct zt_call *call, const struct operands *o, struct zt_conv *c, struct zt_err *err) {
    const struct zt_view *x = &call->in[o->x.at], *w = &call->in[o->w.at];
    const struct zt_view *b = o->bias >= 0 && o->bias < call->in_count ? &call->in[o->bias] : NULL;
    double *from = call->workspace, *weight = from + zt_shape_count(&x->shape);
    double *bias = weight + zt_shape_count(&w->shape), *sum = bias + w->shape.dim[0];
    if (!read(call->graph, zt_call_node(call), o, c, err))
        return NULL;
    zt_quantized_center(call, o->x, -1, from);
    zt_quantized_center(call, o->w, 0, weight);
    for (int64_t m = 0; b && b->data && m < c->m; m++)
        bias[m] = zt_load_double(b->dtype, b->data, m);
    zt_conv_forward(&(struct zt_conv_job){ .conv = *c,
                                           .dtype = ZT_DOUBLE,
                                           .from = from,
                                           .weight = weight,
                                           .bias = b && b->data ? bias : NULL,
                                           .to_dtype = ZT_DOUBLE,
                                           .to = sum,
                                           .threads = call->threads });
    return sum;
}

static bool integer_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv c;
    const double *sum = convolve(call, &integer, &c, err);
    if (sum)
        zt_store_wrapped(call, sum);
    return sum != NULL;
}

static bool quantized_ref(const struct zt_call *call, struct zt_err *err) {
    struct zt_conv c;
    const double *sum = convolve(call, &quantized, &c, err);
    const struct zt_requantize r = { call, { quantized.x.scale, quantized.w.scale }, Y_SCALE, Y_ZERO };
    const bool by_channel = zt_shape_count(&call->in[quantized.w.scale].shape) > 1;
    const int64_t count = sum ? zt_shape_count(&call->out[0].shape) : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at[2] = { 0, by_channel ? i / c.window.out_elems % c.m : 0 };
        zt_requantize(&r, sum[i], at, i);
    }
    return sum != NULL;
}

/* ---- rows ---- */

enum { BYTES = ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT8), SCALE = ZT_BIT(ZT_FLOAT) };

static const struct zt_attr_spec attrs[] = { { "auto_pad", ZT_ATTR_STRING },
                                             { "dilations", ZT_ATTR_INTS },
                                             { "group", ZT_ATTR_INT },
                                             { "kernel_shape", ZT_ATTR_INTS },
                                             { "pads", ZT_ATTR_INTS },
                                             { "strides", ZT_ATTR_INTS },
                                             { 0 } };

const struct zt_op zt_op_conv_integer = {
    .name = "ConvInteger",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(2, 4),
    .flags = ZT_OP_WINDOWS,
    .in_types = { BYTES, BYTES, BYTES, BYTES },
    .same_type = 1 << 2,
    .attrs = attrs,
    .infer = integer_infer,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = integer_ref } },
};

const struct zt_op zt_op_qlinear_conv = {
    .name = "QLinearConv",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(8, 9),
    .flags = ZT_OP_WINDOWS,
    .in_types = { BYTES, SCALE, BYTES, BYTES, SCALE, BYTES, SCALE, BYTES | ZT_BIT(ZT_INT32) },
    .same_type = 1 << 2,
    .attrs = attrs,
    .infer = quantized_infer,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = quantized_ref } },
};
