/* Gelu           y = Gelu(x)                      BiasGelu   y = Gelu(x + b)
 * FastGelu       y = Gelu(x + b), by tanh         QuickGelu  y = x sigmoid(alpha x)
 * BiasSplitGelu  y = l Gelu(r), the halves of x + b along its last axis
 * BiasSoftmax    y = Softmax(x + b) over the axes from `axis` on */
#include "ops/lowered/lowering.h"

static void gelu(struct zt_lowering *l) {
    ZT_LOWER(l, l->n->out[0], "Gelu", zt_lower_add(l, -1, l->n->in[0], zt_lower_in(l, 1)));
}

static void fast_gelu(struct zt_lowering *l) {
    const struct zt_attr by_tanh = { .name = "approximate", .type = ZT_ATTR_STRING, .s = "tanh" };
    ZT_LOWER_WITH(l, l->n->out[0], "Gelu", &by_tanh, 1, zt_lower_add(l, -1, l->n->in[0], zt_lower_in(l, 1)));
}

static void quick_gelu(struct zt_lowering *l) {
    const struct zt_attr alpha = { .name = "alpha", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(l->n, "alpha", 1.702F) };
    ZT_LOWER_WITH(l, l->n->out[0], "Swish", &alpha, 1, l->n->in[0]);
}

static void bias_split_gelu(struct zt_lowering *l) {
    const struct zt_attr halves[] = { { .name = "axis", .type = ZT_ATTR_INT, .i = -1 },
                                      { .name = "num_outputs", .type = ZT_ATTR_INT, .i = 2 } };
    const int sum = zt_lower_add(l, -1, l->n->in[0], l->n->in[1]);
    int half[2] = { -1, -1 };
    zt_lower_all(l, &(struct zt_expand_node){ "Split", &sum, 1, halves, 2 }, half, 2);
    ZT_LOWER(l, l->n->out[0], "Mul", half[0], ZT_LOWER(l, -1, "Gelu", half[1]));
}

/* Whether b broadcasts to x by NumPy's rules, as ONNX's operators do. */
static bool fits(const struct zt_shape *x, const struct zt_shape *b) {
    bool fit = b->rank <= x->rank;
    for (int k = 1; fit && k <= b->rank; k++)
        fit = b->dim[b->rank - k] == 1 || b->dim[b->rank - k] == x->dim[x->rank - k];
    return fit;
}

static void bias_softmax(struct zt_lowering *l) {
    int axis;
    if (!zt_lower_axis(l, zt_attr_int(l->n, "axis", 1), &axis))
        return;
    if (!fits(&zt_lower_first(l)->shape, &zt_in(l->g, l->x->node, 1)->shape))
        ZT_LOWER_FAIL(l, "its bias does not broadcast to its input");
    zt_lower_softmax(l, l->n->out[0], zt_lower_add(l, -1, l->n->in[0], l->n->in[1]), axis);
}

ZT_LOWERED(gelu)
ZT_LOWERED(fast_gelu)
ZT_LOWERED(quick_gelu)
ZT_LOWERED(bias_split_gelu)
ZT_LOWERED(bias_softmax)

static const struct zt_attr_spec with_alpha[] = { { "alpha", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec with_axis[] = { { "axis", ZT_ATTR_INT },
                                                 { "is_inner_broadcast", ZT_ATTR_INT, true },
                                                 { 0 } };

#define ACTIVATION_ROW(id, NAME, LEAST, MOST, EXPAND, ATTRS)                                                           \
    const struct zt_op zt_op_microsoft_##id = {                                                                        \
        .name = NAME,                                                                                                  \
        .domain = "com.microsoft",                                                                                     \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(LEAST, MOST),                                                                                       \
        .in_types = { ZT_ANY_FLOAT },                                                                                  \
        .same_type = 1 << 1,                                                                                           \
        .attrs = ATTRS,                                                                                                \
        .expand = EXPAND##_expand,                                                                                     \
    };

ACTIVATION_ROW(gelu, "Gelu", 1, 1, gelu, NULL)
ACTIVATION_ROW(bias_gelu, "BiasGelu", 2, 2, gelu, NULL)
ACTIVATION_ROW(fast_gelu, "FastGelu", 1, 2, fast_gelu, NULL)
ACTIVATION_ROW(quick_gelu, "QuickGelu", 1, 1, quick_gelu, with_alpha)
ACTIVATION_ROW(bias_split_gelu, "BiasSplitGelu", 2, 2, bias_split_gelu, NULL)
ACTIVATION_ROW(bias_softmax, "BiasSoftmax", 2, 2, bias_softmax, with_axis)
