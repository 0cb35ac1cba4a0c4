/* Experimental operators of ONNX before opset 10, which onnxruntime has kept; converters of Core ML models write them
 * (WinMLTools).
 *
 *     Affine              y = alpha x + beta
 *     Crop                y = x[..., top : H - bottom, left : W - right] of border = (left, top, right, bottom); with
 *                         scale = (h, w) y = x[..., top : top + h, left : left + w]
 *     DynamicSlice        Slice with starts, ends and axes as inputs
 *     ImageScaler         y = scale x + bias, a bias for each channel
 *     ParametricSoftplus  y = alpha Softplus(beta x)
 *     ScaledTanh          y = alpha Tanh(beta x)
 *     ThresholdedRelu     as from opset 10 on */
#include "ops/lowered/lowering.h"

/* x times a number. */
static int times(struct zt_lowering *l, int out, int x, float by) {
    return ZT_LOWER(l, out, "Mul", x, zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, (double)by));
}

static void affine(struct zt_lowering *l) {
    const double beta = (double)zt_attr_float(l->n, "beta", 0);
    ZT_LOWER(l, l->n->out[0], "Add", times(l, -1, l->n->in[0], zt_attr_float(l->n, "alpha", 1)),
             zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, beta));
}

/* alpha f(beta x) */
static void scaled(struct zt_lowering *l, const char *function) {
    const int inner = times(l, -1, l->n->in[0], zt_attr_float(l->n, "beta", 1));
    times(l, l->n->out[0], ZT_LOWER(l, -1, function, inner), zt_attr_float(l->n, "alpha", 1));
}

static void parametric_softplus(struct zt_lowering *l) {
    scaled(l, "Softplus");
}

static void scaled_tanh(struct zt_lowering *l) {
    scaled(l, "Tanh");
}

static void thresholded_relu(struct zt_lowering *l) {
    ZT_LOWER_WITH(l, l->n->out[0], "ThresholdedRelu", l->n->attr, l->n->attr_count, l->n->in[0]);
}

static void crop(struct zt_lowering *l) {
    const struct zt_shape *x = &zt_lower_first(l)->shape;
    int sides, sizes;
    const int64_t *border = zt_attr_ints(l->n, "border", &sides), *size = zt_attr_ints(l->n, "scale", &sizes);
    if (x->rank != 4 || sides != 4 || (size && sizes != 2)) {
        ZT_LOWER_FAIL(l, "wants an input of 4 axes, 4 borders and, where there is a scale, 2 sizes");
        return;
    }
    const int64_t from[] = { border[1], border[0] };
    const int64_t to[] = { size ? from[0] + size[0] : x->dim[2] - border[3],
                           size ? from[1] + size[1] : x->dim[3] - border[2] };
    for (int k = 0; k < 2; k++)
        if (from[k] < 0 || to[k] <= from[k] || to[k] > x->dim[2 + k])
            ZT_LOWER_FAIL(l, "keeps %lld to %lld of the %lld elements along axis %d", (long long)from[k],
                          (long long)to[k], (long long)x->dim[2 + k], 2 + k);
    ZT_LOWER(l, l->n->out[0], "Slice", l->n->in[0], zt_lower_shape(l, from[0], from[1]),
             zt_lower_shape(l, to[0], to[1]), zt_lower_shape(l, 2, 3));
}

static void dynamic_slice(struct zt_lowering *l) {
    zt_lower(l, l->n->out[0],
             &(struct zt_expand_node){
                 "Slice", (const int[]){ l->n->in[0], l->n->in[1], l->n->in[2], zt_lower_in(l, 3) }, l->n->in_count });
}

static void image_scaler(struct zt_lowering *l) {
    const struct zt_value *x = zt_lower_first(l);
    const struct zt_attr *bias = zt_node_attr(l->n, "bias");
    const float scale = zt_attr_float(l->n, "scale", 1);
    if (x->shape.rank != 4 || !bias || bias->count != x->shape.dim[1]) {
        ZT_LOWER_FAIL(l, "wants an input of 4 axes, and a bias for each channel");
        return;
    }
    const int numbers = zt_graph_add_constant(
        l->g, NULL, ZT_FLOAT, &(struct zt_shape){ .rank = 3, .dim = { bias->count, 1, 1 } }, bias->floats);
    const struct zt_attr to = { .name = "to", .type = ZT_ATTR_INT, .i = x->dtype };
    ZT_LOWER(l, l->n->out[0], "Add", times(l, -1, x->id, scale), ZT_LOWER_WITH(l, -1, "Cast", &to, 1, numbers));
}

/* ---- rows ---- */

ZT_LOWERED(affine)
ZT_LOWERED(crop)
ZT_LOWERED(dynamic_slice)
ZT_LOWERED(image_scaler)
ZT_LOWERED(parametric_softplus)
ZT_LOWERED(scaled_tanh)
ZT_LOWERED(thresholded_relu)

static const struct zt_attr_spec two_numbers[] = { { "alpha", ZT_ATTR_FLOAT }, { "beta", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec one_number[] = { { "alpha", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec crop_attrs[] = { { "border", ZT_ATTR_INTS, true }, { "scale", ZT_ATTR_INTS }, { 0 } };
static const struct zt_attr_spec scaler_attrs[] = { { "bias", ZT_ATTR_FLOATS }, { "scale", ZT_ATTR_FLOAT }, { 0 } };

#define EXPERIMENTAL_ROW(NAME, BODY, ATTRS)                                                                            \
    const struct zt_op zt_op_experimental_##BODY = {                                                                   \
        .name = NAME,                                                                                                  \
        .since = 1,                                                                                                    \
        .until = 9,                                                                                                    \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .in_types = { ZT_ANY_FLOAT },                                                                                  \
        .attrs = ATTRS,                                                                                                \
        .expand = BODY##_expand,                                                                                       \
    };

EXPERIMENTAL_ROW("Affine", affine, two_numbers)
EXPERIMENTAL_ROW("Crop", crop, crop_attrs)
EXPERIMENTAL_ROW("ImageScaler", image_scaler, scaler_attrs)
EXPERIMENTAL_ROW("ParametricSoftplus", parametric_softplus, two_numbers)
EXPERIMENTAL_ROW("ScaledTanh", scaled_tanh, two_numbers)
EXPERIMENTAL_ROW("ThresholdedRelu", thresholded_relu, one_number)

const struct zt_op zt_op_experimental_dynamic_slice = {
    .name = "DynamicSlice",
    .since = 1,
    .until = 9,
    ZT_ONE_OUT(3, 4),
    .in_types = { ZT_ANY_TYPE, ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64), ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64),
                  ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64) },
    .no_grad_in = 1 << 1 | 1 << 2 | 1 << 3,
    .expand = dynamic_slice_expand,
};
