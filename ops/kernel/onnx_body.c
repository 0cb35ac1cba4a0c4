#include "ops/kernel/onnx_body.h"

const char *zt_body_slices(struct zt_function_body *b, const struct zt_axis_slices *s) {
    return zt_function_body_list(b, (const int64_t[]){ s->outer, s->length, s->inner }, 3);
}

const char *zt_body_out(struct zt_function_body *b, int out) {
    return zt_function_body_dims(b, &zt_out(b->g, b->node, out)->shape);
}

const char *zt_body_attr_list(struct zt_function_body *b, const char *name) {
    int count;
    const int64_t *list = zt_attr_ints(b->g->nodes[b->node], name, &count);
    return list ? zt_function_body_list(b, list, count) : "";
}

ZT_FUNCTION_BODY(zt_same_opset_form_body) {
    (void)err;
    zt_function_body_again(b, g->nodes[node]->op_type, "", "");
    return true;
}

ZT_FUNCTION_BODY(zt_axes_old_function_body) {
    (void)err;
    zt_function_body_again(b, g->nodes[node]->op_type, "axes", zt_body_attr_list(b, "axes"));
    return true;
}
