/* ONNX function bodies of Softmax, LogSoftmax and Hardmax before opset 13, and of the gradients (formulas in
 * softmax.c). */
#include "ops/kernel/axis_slices.h"
#include "ops/softmax/kernels.h"
#include "ops/softmax/softmax.h"

/* The forms before opset 13: a slice is a row of the input reshaped to a matrix. */
static bool write_flat(struct zt_function_body *b, const char *op, struct zt_err *err) {
    struct zt_axis_slices slices;
    if (!zt_softmax_read(b->g, b->node, &slices, err))
        return false;
    zt_function_body_names(b, "x -> y");
    zt_function_body_add(b, "y = Reshape(%s<axis=1>(Reshape(x, %s)), %s)", op, zt_body_slices(b, &slices),
                         zt_body_out(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_softmax_function_body) {
    (void)g, (void)node;
    return write_flat(b, b->g->nodes[b->node]->op_type, err);
}

/* `dx`: the gradient from dy and y, both [slices, length]. */
static bool write_gradient(struct zt_function_body *b, const char *dx, struct zt_err *err) {
    struct zt_axis_slices slices;
    if (!zt_softmax_read(b->g, b->node, &slices, err))
        return false;
    zt_function_body_names(b, "dy, y -> dx");
    zt_function_body_add(b, "slices = %s; dy = Reshape(dy, slices); y = Reshape(y, slices)",
                         zt_body_slices(b, &slices));
    zt_function_body_add(b, "dx = Reshape(%s, %s)", dx, zt_body_out(b, 0));
    return true;
}

ZT_FUNCTION_BODY(zt_softmax_grad_function_body) {
    (void)g, (void)node;
    return write_gradient(b, "y * (dy - ReduceSum(dy * y, [1]))", err);
}

ZT_FUNCTION_BODY(zt_log_softmax_grad_function_body) {
    (void)g, (void)node;
    return write_gradient(b, "dy - Exp(y) * ReduceSum(dy, [1])", err);
}
