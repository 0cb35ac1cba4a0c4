/* conv_scale: a Mul by one number a channel after a convolution moves to its weights and bias,
 *
 *     s conv(x, w, b) = conv(x, s w, s b)
 *
 * where s depends on parameters alone and there are not many more weights than results. tf2onnx leaves such a Mul of
 * BatchNormalization behind convolutions with a bias and depthwise ones. */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/pattern.h"

/* Weights for each result: a scaled result takes a pass more, in another layout, and hides the convolution from other
 * patterns. */
enum { MOST_WEIGHTS = 4 };

/* value * scale, a number for each element of the value's first axis. */
static int scaled(struct zt_match *m, const struct zt_op_table *table, int value, int scale, struct zt_err *err) {
    struct zt_shape shape = { .rank = m->g->values[value]->shape.rank };
    shape.dim[0] = zt_shape_count(&m->g->values[scale]->shape);
    for (int k = 1; k < shape.rank; k++)
        shape.dim[k] = 1;
    const int along = zt_match_reshape(m, table, scale, &shape, err);
    return along < 0
               ? -1
               : zt_match_before(m, table, &(struct zt_match_node){ "Mul", (const int[]){ value, along }, 2 }, err);
}

static bool fuse_conv_scale(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    if (!zt_pattern_find(g, node, "Mul((conv = Conv(x, w) | conv = Conv(x, w, bias)), scale)", &m))
        return false;
    const int result = zt_match_result(&m), scale = zt_match_value(&m, "scale"), bias = zt_match_value(&m, "bias");
    int in[3] = { zt_match_value(&m, "x"), zt_match_value(&m, "w"), bias };
    if (!zt_match_same(&m, zt_match_value(&m, "conv"), result) || !zt_match_along(&m, scale, result, 1, 2) ||
        zt_shape_count(&g->values[in[1]]->shape) > MOST_WEIGHTS * zt_shape_count(&g->values[result]->shape) ||
        !zt_value_from_params(g, scale) || !zt_value_from_params(g, in[1]))
        return false;
    in[1] = scaled(&m, table, in[1], scale, err);
    in[2] = in[1] >= 0 && bias >= 0 ? scaled(&m, table, bias, scale, err) : -1;
    if (in[1] < 0 || (bias >= 0 && in[2] < 0))
        return false;
    const struct zt_node conv = *zt_match_node(&m, "conv");
    int made = zt_match_replace(&m, "Conv", in, bias >= 0 ? 3 : 2);
    for (int i = 0; i < conv.attr_count; i++)
        zt_node_set_attr(g, made, &conv.attr[i]);
    return zt_match_done(&m, table, made, err);
}

const struct zt_pattern zt_pattern_conv_scale = { "conv_scale", ZT_FUSE_FORWARD, fuse_conv_scale };
