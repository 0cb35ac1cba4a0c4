/* DFT (opset 17: `axis` is an attribute; opset 20: an input). Formulas: dft_plan.h; gradient: dft_gradient.c. */
#include "ops/signal/dft.h"
#include "ops/signal/dft_gradient.h"
#include "ops/signal/kernels.h"

#include "ops/kernel/shape.h"

static bool dft_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    struct zt_shape shape = x->shape;
    struct zt_dft d;
    int axis;
    if (!zt_dft_read(g, node, &d, err) || !zt_dft_axis(g, node, &axis, err))
        return false;
    shape.dim[axis] = d.writes;
    shape.dim[shape.rank - 1] = d.out.real ? 1 : 2;
    zt_set_out(g, node, 0, x->dtype, &shape);
    return true;
}

static bool dft_grad(struct zt_grad *b, int node, struct zt_err *err) {
    const struct zt_graph *g = zt_grad_graph(b);
    struct zt_dft d;
    int axis;
    if (!zt_dft_read(g, node, &d, err) || !zt_dft_axis(g, node, &axis, err))
        return false;
    const int64_t size = zt_in(g, node, 0)->shape.dim[axis];
    const int dx = zt_dft_emit_gradient(b, &d, zt_grad_out(b, node, 0), axis);
    zt_grad_give(b, node, 0, dx < 0 ? dx : zt_dft_emit_sized(b, dx, axis, size));
    return true;
}

/* The form of opset 20 with the axis as an input. */
static ZT_FUNCTION_BODY(axis_attribute_function_body) {
    int axis;
    if (!zt_dft_axis(g, node, &axis, err))
        return false;
    zt_function_body_again(b, "DFT", "axis",
                           zt_function_body_text(b, "%s%di", g->nodes[node]->in_count < 2 ? "_, " : "", axis));
    return true;
}

static const struct zt_dft_row detail = { zt_dft_read };
static const struct zt_attr_spec attrs[] = { { "inverse", ZT_ATTR_INT }, { "onesided", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec axis_attrs[] = {
    { "axis", ZT_ATTR_INT }, { "inverse", ZT_ATTR_INT }, { "onesided", ZT_ATTR_INT }, { 0 }
};
#define LENGTH (ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64))
#define ROW                                                                                                            \
    .name = "DFT", .domain = "", .infer = dft_infer, .grad = dft_grad, .no_grad_in = 0x6, .shape_in = 0x6,             \
    .flops = zt_dft_flops, .detail = &detail,                                                                          \
    .kernel = { [ZT_REF] = { .prepare = zt_dft_ref_prepare, .run = zt_dft_ref, .release = zt_dft_ref_release },        \
                [ZT_CPU] = ZT_ON_CPU(zt_dft_cpu),                                                                      \
                [ZT_CUDA] = ZT_CUDA_AS(dft, zt_cuda_float_data, zt_dft_describe) }

const struct zt_op zt_op_dft = {
    ROW, .since = 20, ZT_ONE_OUT(1, 3), .in_types = { ZT_ANY_FLOAT, LENGTH, ZT_BIT(ZT_INT64) }, .attrs = attrs,
};
const struct zt_op zt_op_dft_axis_attribute = {
    ROW,
    .since = 17,
    .until = 19,
    ZT_ONE_OUT(1, 2),
    .in_types = { ZT_ANY_FLOAT, LENGTH },
    .attrs = axis_attrs,
    .body = axis_attribute_function_body,
};
