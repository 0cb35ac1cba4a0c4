/* Operators of TensorFlow that tf2onnx cannot convert and leaves in the file under their own names, as if they were
 * ONNX's.
 *
 *     Erfc     1 - Erf(x)         Keras writes Gelu with it
 *     Expm1    Exp(x) - 1
 *     Log1p    Log(1 + x)
 */
#include "ops/lowered/lowering.h"

static int one(const struct zt_lowering *l) {
    return zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, 1);
}

static void erfc_of(struct zt_lowering *l) {
    ZT_LOWER(l, l->n->out[0], "Sub", one(l), ZT_LOWER(l, -1, "Erf", l->n->in[0]));
}

static void expm1_of(struct zt_lowering *l) {
    ZT_LOWER(l, l->n->out[0], "Sub", ZT_LOWER(l, -1, "Exp", l->n->in[0]), one(l));
}

static void log1p_of(struct zt_lowering *l) {
    ZT_LOWER(l, l->n->out[0], "Log", ZT_LOWER(l, -1, "Add", l->n->in[0], one(l)));
}

ZT_LOWERED(erfc_of)
ZT_LOWERED(expm1_of)
ZT_LOWERED(log1p_of)

#define TENSORFLOW_ROW(NAME, ID, BODY)                                                                                 \
    const struct zt_op zt_op_tensorflow_##ID = {                                                                       \
        .name = NAME,                                                                                                  \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .in_types = { ZT_ANY_FLOAT },                                                                                  \
        .expand = BODY##_expand,                                                                                       \
    };

TENSORFLOW_ROW("Erfc", erfc, erfc_of)
TENSORFLOW_ROW("Expm1", expm1, expm1_of)
TENSORFLOW_ROW("Log1p", log1p, log1p_of)
