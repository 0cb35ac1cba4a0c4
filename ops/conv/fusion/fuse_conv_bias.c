/* conv_bias: an Add of one number a channel to a convolution becomes the convolution's bias, added to the one it has
 * where both depend on parameters alone. */
#include "graph/passes/fusion/apply_patterns.h"
#include "graph/passes/fusion/pattern.h"

static bool fuse_conv_bias(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct zt_match m;
    if (!zt_pattern_find(g, node,
                         "Add((conv = Conv(x, w) | conv = ConvTranspose(x, w) | conv = Conv(x, w, own)), bias)", &m))
        return false;
    int result = zt_match_result(&m), bias = zt_match_value(&m, "bias"), own = zt_match_value(&m, "own");
    if (!zt_match_same(&m, zt_match_value(&m, "conv"), result) || !zt_match_along(&m, bias, result, 1, 2) ||
        (own >= 0 && !(zt_value_from_params(g, own) && zt_value_from_params(g, bias))))
        return false;
    bias = zt_match_reshape(&m, table, bias, &(struct zt_shape){ 1, { g->values[result]->shape.dim[1] } }, err);
    if (bias >= 0 && own >= 0)
        bias = zt_match_before(&m, table, &(struct zt_match_node){ "Add", (const int[]){ own, bias }, 2 }, err);
    if (bias < 0)
        return false;
    const struct zt_node conv = *zt_match_node(&m, "conv");
    int made = zt_match_replace(&m, conv.op_type, (const int[]){ conv.in[0], conv.in[1], bias }, 3);
    for (int i = 0; i < conv.attr_count; i++)
        zt_node_set_attr(g, made, &conv.attr[i]);
    return zt_match_done(&m, table, made, err);
}

const struct zt_pattern zt_pattern_conv_bias = { "conv_bias", ZT_FUSE_FORWARD, fuse_conv_bias };
