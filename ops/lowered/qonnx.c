/* Quant of QONNX, which Brevitas exports (domains onnx.brevitas, qonnx.custom_op.general and finn.custom_op.general):
 * floats that are rounded to the numbers of an integer of bitwidth bits.
 *
 *     y = scale (clip(round(x / scale + zero), least, most) - zero)        rounded half to even
 *         signed     least = -2^(bits - 1), one more if narrow             most = 2^(bits - 1) - 1
 *         unsigned   least = 0                                             most = 2^bits - 1, one less if narrow
 *
 * It becomes DequantizeLinear(QuantizeLinear(x)) of the next wider integer type, whose derivative is 1 between the
 * ends of its range (ops/quantize/fake_quantize.c), of x within least and most. */
#include "ops/lowered/lowering.h"

#include <math.h>
#include <strings.h>

enum { X, SCALE, ZERO, BITS };

struct quant {
    double least, most;
    enum zt_dtype type; /* of the integers */
    bool whole;         /* their range is least to most */
    int axis;           /* of x, with a scale for each index; -1: one scale */
    struct zt_shape scales;
};

static bool read_range(struct zt_lowering *l, struct quant *q) {
    const struct zt_value *v = zt_in(l->g, l->x->node, BITS);
    const bool known = zt_value_is_constant(v) && zt_shape_count(&v->shape) == 1;
    const double bits = known ? zt_load_double(v->dtype, v->data, 0) : 0;
    const bool has_sign = zt_attr_int(l->n, "signed", 1) != 0, narrow = zt_attr_int(l->n, "narrow", 0) != 0;
    const char *mode = zt_attr_text(l->n, "rounding_mode", "ROUND");
    if (!(bits >= 2 && bits <= 16) || bits != floor(bits))
        ZT_LOWER_FAIL(l, "bitwidth \"%s\" is no constant of 2 to 16", v->name);
    if (strcasecmp(mode, "ROUND") != 0)
        ZT_LOWER_FAIL(l, "rounding_mode \"%s\" is not supported, only ROUND", mode);
    if (l->failed)
        return false;
    const double numbers = exp2(bits);
    q->least = has_sign ? -numbers / 2 + narrow : 0;
    q->most = has_sign ? numbers / 2 - 1 : numbers - 1 - narrow;
    q->type = bits > 8 ? (has_sign ? ZT_INT16 : ZT_UINT16) : has_sign ? ZT_INT8 : ZT_UINT8;
    q->whole = !narrow && (bits == 8 || bits == 16);
    return true;
}

/* Scales that broadcast to x along one axis. */
static bool read_axis(struct zt_lowering *l, struct quant *q) {
    const struct zt_shape *x = &zt_lower_first(l)->shape, *s = &zt_in(l->g, l->x->node, SCALE)->shape;
    char text[ZT_SHAPE_TEXT];
    q->axis = -1;
    for (int k = 0; k < s->rank; k++) {
        const int axis = x->rank - s->rank + k;
        if (s->dim[k] == 1)
            continue;
        if (q->axis >= 0 || axis < 0 || s->dim[k] != x->dim[axis]) {
            ZT_LOWER_FAIL(l, "a scale of shape %s is not supported: wants one, or one for each index of an axis",
                          zt_shape_text(s, text));
            return false;
        }
        q->axis = axis;
    }
    q->scales = (struct zt_shape){ .rank = q->axis >= 0, .dim = { q->axis >= 0 ? x->dim[q->axis] : 1 } };
    return true;
}

/* The zero points as integers, one for each scale; -1: not supported. */
static int zeros(struct zt_lowering *l, const struct quant *q, double *zero) {
    const struct zt_value *v = zt_in(l->g, l->x->node, ZERO);
    const int64_t count = zt_shape_count(&q->scales);
    if (!zt_value_is_constant(v) || zt_shape_count(&v->shape) != 1) {
        ZT_LOWER_FAIL(l, "zero point \"%s\" is not one constant number", v->name);
        return -1;
    }
    *zero = zt_load_double(v->dtype, v->data, 0);
    if (*zero != rint(*zero) || *zero < q->least || *zero > q->most) {
        ZT_LOWER_FAIL(l, "zero point %g is no integer of %g to %g", *zero, q->least, q->most);
        return -1;
    }
    char *all = zt_arena_alloc(l->g->arena, (size_t)count * zt_dtype_bytes(q->type));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(q->type, all, i, *zero);
    return zt_graph_add_constant(l->g, NULL, q->type, &q->scales, all);
}

static void quant(struct zt_lowering *l) {
    struct quant q;
    double zero = 0;
    if (!read_range(l, &q) || !read_axis(l, &q))
        return;
    const int points = zeros(l, &q, &zero), scale = l->n->in[SCALE];
    if (l->failed)
        return;
    int x = l->n->in[X];
    if (!q.whole) {
        const int least = ZT_LOWER(l, -1, "Mul", scale, zt_graph_add_float(l->g, NULL, ZT_FLOAT, q.least - zero));
        const int most = ZT_LOWER(l, -1, "Mul", scale, zt_graph_add_float(l->g, NULL, ZT_FLOAT, q.most - zero));
        x = ZT_LOWER(l, -1, "Min", ZT_LOWER(l, -1, "Max", x, least), most);
    }
    const struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = q.axis < 0 ? 1 : q.axis };
    const int scales = ZT_LOWER(l, -1, "Reshape", scale, zt_graph_add_ints(l->g, NULL, q.scales.dim, q.scales.rank));
    const int integers = ZT_LOWER_WITH(l, -1, "QuantizeLinear", &axis, 1, x, scales, points);
    ZT_LOWER_WITH(l, l->n->out[0], "DequantizeLinear", &axis, 1, integers, scales, points);
}

ZT_LOWERED(quant)

static const struct zt_attr_spec quant_attrs[] = {
    { "narrow", ZT_ATTR_INT }, { "rounding_mode", ZT_ATTR_STRING }, { "signed", ZT_ATTR_INT }, { 0 }
};

#define QUANT_ROW(id, DOMAIN)                                                                                          \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = "Quant",                                                                                               \
        .domain = DOMAIN,                                                                                              \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(4, 4),                                                                                              \
        .in_types = { ZT_BIT(ZT_FLOAT), ZT_BIT(ZT_FLOAT), ZT_BIT(ZT_FLOAT), ZT_BIT(ZT_FLOAT) },                        \
        .attrs = quant_attrs,                                                                                          \
        .no_grad_in = 1 << ZERO | 1 << BITS,                                                                           \
        .scale_in = 1 << SCALE,                                                                                        \
        .expand = quant_expand,                                                                                        \
    };

QUANT_ROW(brevitas_quant, "onnx.brevitas")
QUANT_ROW(finn_quant, "finn.custom_op.general")
QUANT_ROW(qonnx_quant, "qonnx.custom_op.general")
