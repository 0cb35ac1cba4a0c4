/* y = swish(a) b, swish(a) = a s(alpha a), s the logistic function       da = dy b swish'(a), db = dy swish(a)
 *
 * ONNX SwiGLU (Shazeer, "GLU variants improve transformer", 2020); a and b have one shape. */
#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/kernel/element_blocks.h"
#include "ops/elementwise/kernels.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <math.h>

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *a = zt_in(g, node, 0), *b = zt_in(g, node, 1);
    char left[ZT_SHAPE_TEXT], right[ZT_SHAPE_TEXT];
    if (!zt_shape_equal(&a->shape, &b->shape))
        return zt_node_fail(g, node, err, "\"%s\" is %s and \"%s\" is %s, wants one shape", a->name,
                            zt_shape_text(&a->shape, left), b->name, zt_shape_text(&b->shape, right));
    return zt_infer_first(g, node, err);
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    double alpha = (double)zt_attr_float(call->node, "alpha", 1), gate[ZT_ELEMENT_BLOCK], value[ZT_ELEMENT_BLOCK];
    int64_t total = zt_shape_count(&y->shape);
    for (int64_t at = 0; at < total; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, total - at);
        zt_load_block(a->dtype, a->data, at, 1, count, gate);
        zt_load_block(b->dtype, b->data, at, 1, count, value);
        for (int64_t i = 0; i < count; i++)
            gate[i] *= value[i] / (1 + exp(-alpha * gate[i]));
        zt_store_block(y->dtype, y->data, at, 1, count, gate);
    }
    return true;
}

static bool grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int dy = zt_grad_out(b, node, 0), out;
    if (zt_grad_wanted(b, node, 0)) {
        int slope[2] = { ZT_EMIT(b, "Mul", dy, n->in[1]), n->in[0] };
        zt_emit_node(b, &(struct zt_emission){ "SwishGrad", "ztrain", slope, 2, n }, &out, 1);
        zt_grad_give(b, node, 0, out);
    }
    if (zt_grad_wanted(b, node, 1)) {
        zt_emit_node(b, &(struct zt_emission){ "Swish", "", n->in, 1, n }, &out, 1);
        zt_grad_give(b, node, 1, ZT_EMIT(b, "Mul", dy, out));
    }
    return true;
}

static const struct zt_attr_spec attrs[] = { { "alpha", ZT_ATTR_FLOAT }, { 0 } };

const struct zt_op zt_op_swiglu = {
    .name = "SwiGLU",
    .domain = "",
    .since = 28,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_HALF | ZT_OP_IN_PLACE,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1,
    .attrs = attrs,
    .infer = infer,
    .grad = grad,
    .detail = ZT_ELEMENTWISE_LOOPS(swiglu, none),
    .kernel = { [ZT_REF] = { .run = run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};
