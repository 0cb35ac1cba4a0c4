/* com.microsoft.Range, which tf2onnx writes for tf.linalg.diag and its like: Range of ONNX, whose delta may be left
 * out. */
#include "graph/passes/lower.h"
#include "ops/kernel/shape.h"

static bool range_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    int in[3] = { n->in[0], n->in[1], n->in_count > 2 ? n->in[2] : -1 }, y = n->out[0];
    const enum zt_dtype dtype = zt_in(x->g, x->node, 0)->dtype;
    x->done = true;
    if (in[2] < 0) {
        char one[sizeof(double)];
        const bool floats = zt_dtype_in(dtype, ZT_ANY_FLOAT);
        if (floats)
            zt_store_double(dtype, one, 0, 1);
        else
            zt_store_int(dtype, one, 0, 1);
        in[2] = zt_graph_add_constant(x->g, NULL, dtype, &(struct zt_shape){ 0 }, one);
    }
    return zt_expand_emit(x, &(struct zt_expand_node){ "Range", in, 3 }, &y, 1, err);
}

enum { RANGE_TYPES = ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_DOUBLE) | ZT_BIT(ZT_INT16) | ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64) };

const struct zt_op zt_op_microsoft_range = {
    .name = "Range",
    .domain = "com.microsoft",
    .since = 0, /* tf2onnx does not import the domain */
    ZT_ONE_OUT(2, 3),
    .in_types = { RANGE_TYPES, RANGE_TYPES, RANGE_TYPES },
    .same_type = 1 << 1 | 1 << 2,
    .no_grad_in = 0x7,
    .expand = range_expand,
};
