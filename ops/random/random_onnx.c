/* ONNX function bodies of Dropout: opsets before 12, and the gradient. */
#include "ops/random/kernels.h"

/* Without training_mode nothing is dropped. */
ZT_FUNCTION_BODY(zt_dropout_old_function_body) {
    (void)g, (void)node, (void)err;
    zt_function_body_names(b, "x -> y, mask");
    zt_function_body_add(b, "y = x; mask = Equal(x, x)");
    if (zt_function_body_wants(b, 1) && zt_out(g, node, 1)->dtype != ZT_BOOL)
        zt_function_body_add(b, "mask = Expand(1, %s)", zt_function_body_dims(b, &zt_out(g, node, 1)->shape));
    return true;
}

ZT_FUNCTION_BODY(zt_dropout_grad_function_body) {
    (void)err;
    zt_function_body_names(b, "dy, mask, ratio -> dx");
    if (!zt_in(g, node, 2))
        zt_function_body_number(b, "ratio", (double)zt_attr_float(g->nodes[node], "ratio", 0.5f));
    zt_function_body_add(b, "dx = Where(And(mask, Less(ratio, 1)), dy / (1 - ratio), 0)");
    return true;
}
