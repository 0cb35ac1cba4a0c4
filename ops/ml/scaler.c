/* Scaler (ai.onnx.ml 1): y = (x - offset) * scale in float, along the last axis, or with one number for all. Expanded
 * into Sub and Mul, whose kernels and gradients it has. scikit-learn's StandardScaler and MinMaxScaler are written so.
 */
#include "graph/passes/lower.h"
#include "ops/kernel/shape.h"
#include "ops/ml/kernels.h"

#include <string.h>

/* The numbers of an attribute as a constant for x, `otherwise` where there are none; -1: they do not fit. */
static int numbers_of(const struct zt_expansion *x, const char *name, float otherwise, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const struct zt_attr *a = zt_node_attr(n, name);
    const struct zt_shape *shape = &zt_in(x->g, x->node, 0)->shape;
    if (!a || a->count == 0)
        return zt_graph_add_float(x->g, NULL, ZT_FLOAT, (double)otherwise);
    if (a->count != 1 && (shape->rank < 1 || shape->dim[shape->rank - 1] != a->count)) {
        zt_node_fail(x->g, x->node, err, "attribute \"%s\" has %d numbers, which do not fit the last axis of its input",
                     name, a->count);
        return -1;
    }
    return zt_graph_add_constant(x->g, NULL, ZT_FLOAT, &(struct zt_shape){ 1, { a->count } }, a->floats);
}

static bool scaler_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_attr to_float = { .name = "to", .type = ZT_ATTR_INT, .i = ZT_FLOAT };
    int in[2] = { x->g->nodes[x->node]->in[0], numbers_of(x, "offset", 0, err) }, shifted = -1;
    const int scale = in[1] < 0 ? -1 : numbers_of(x, "scale", 1, err);
    x->done = true;
    if (scale < 0)
        return false;
    if (zt_in(x->g, x->node, 0)->dtype != ZT_FLOAT) {
        int cast = -1;
        if (!zt_expand_emit(x, &(struct zt_expand_node){ "Cast", in, 1, &to_float, 1 }, &cast, 1, err))
            return false;
        in[0] = cast;
    }
    int y = x->g->nodes[x->node]->out[0];
    return zt_expand_emit(x, &(struct zt_expand_node){ "Sub", in, 2 }, &shifted, 1, err) &&
           zt_expand_emit(x, &(struct zt_expand_node){ "Mul", (int[]){ shifted, scale }, 2 }, &y, 1, err);
}

static const struct zt_attr_spec attrs[] = { { "offset", ZT_ATTR_FLOATS }, { "scale", ZT_ATTR_FLOATS }, { 0 } };

const struct zt_op zt_op_scaler = {
    .name = "Scaler",
    .domain = "ai.onnx.ml",
    .since = 1,
    .until = ZT_ML_OPSET,
    ZT_ONE_OUT(1, 1),
    .in_types = { ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_DOUBLE) | ZT_BIT(ZT_INT64) | ZT_BIT(ZT_INT32) },
    .attrs = attrs,
    .expand = scaler_expand,
};
