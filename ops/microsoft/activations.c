/* Gelu       y = Gelu(x)                      BiasGelu   y = Gelu(x + b)
 * FastGelu   y = Gelu(x + b), by tanh         QuickGelu  y = x sigmoid(alpha x) */
#include "ops/microsoft/lowering.h"

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

ZT_LOWERED(gelu)
ZT_LOWERED(fast_gelu)
ZT_LOWERED(quick_gelu)

static const struct zt_attr_spec with_alpha[] = { { "alpha", ZT_ATTR_FLOAT }, { 0 } };

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
