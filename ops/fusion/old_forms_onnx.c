/* Old forms of operators in those of ZT_FUNCTION_BODY_OPSET: what was an attribute and is an input now, what had other
 * rules. */
#include "ops/kernel/function_bodies.h"
#include "ops/norm/norm.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* A list of integers that was the attribute `name`. */
static const char *list_of(struct zt_function_body *b, const char *name) {
    int count;
    const int64_t *list = zt_attr_ints(b->g->nodes[b->node], name, &count);
    return list ? zt_function_body_list(b, list, count) : "";
}

/* Only types or rare attributes differ. */
ZT_FUNCTION_BODY(zt_same_opset_form_body) {
    (void)err;
    zt_function_body_again(b, g->nodes[node]->op_type, "", "");
    return true;
}

ZT_FUNCTION_BODY(zt_axes_old_function_body) {
    (void)err;
    zt_function_body_again(b, g->nodes[node]->op_type, "axes", list_of(b, "axes"));
    return true;
}

/* Since opset 18 either the lengths or their number must be said. */
ZT_FUNCTION_BODY(zt_split_old_function_body) {
    (void)err;
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int64_t axis = zt_attr_int(n, "axis", 0), *length = ZT_NEW_N(b->arena, int64_t, n->out_count);
    for (int i = 0; i < n->out_count; i++)
        length[i] = zt_out(g, node, i)->shape.dim[axis < 0 ? axis + x->rank : axis];
    zt_function_body_again(b, "Split", "split",
                           zt_in(g, node, 1) ? "" : zt_function_body_list(b, length, n->out_count));
    return true;
}

ZT_FUNCTION_BODY(zt_slice_old_function_body) {
    (void)g, (void)node, (void)err;
    const char *axes = list_of(b, "axes");
    zt_function_body_again(
        b, "Slice", "starts ends axes",
        zt_function_body_text(b, "%s, %s%s%s", list_of(b, "starts"), list_of(b, "ends"), *axes ? ", " : "", axes));
    return true;
}

ZT_FUNCTION_BODY(zt_top_k_old_function_body) {
    (void)err;
    const struct zt_attr *k = zt_node_attr(g->nodes[node], "k");
    zt_function_body_again(b, "TopK", "k", k ? zt_function_body_text(b, "[%lld]", (long long)k->i) : "");
    return true;
}

ZT_FUNCTION_BODY(zt_pad_old_function_body) {
    (void)err;
    const struct zt_node *n = g->nodes[node];
    if (!zt_node_attr(n, "pads"))
        return zt_same_opset_form_body(b, g, node, err);
    zt_function_body_names(b, "x -> y");
    zt_function_body_number(b, "value", (double)zt_attr_float(n, "value", 0));
    zt_function_body_add(b, "y = Pad<mode=\"%s\">(x, %s, value)", zt_attr_text(n, "mode", "constant"),
                         list_of(b, "pads"));
    return true;
}

ZT_FUNCTION_BODY(zt_clip_old_function_body) {
    (void)err;
    const struct zt_attr *low = zt_node_attr(g->nodes[node], "min"), *high = zt_node_attr(g->nodes[node], "max");
    zt_function_body_names(b, "x -> y");
    zt_function_body_number(b, "low", low ? (double)low->f : 0);
    zt_function_body_number(b, "high", high ? (double)high->f : 0);
    zt_function_body_add(b, "y = Clip(x, %s, %s)", low ? "low" : "_", high ? "high" : "_");
    return true;
}

/* Without training_mode nothing is dropped. */
ZT_FUNCTION_BODY(zt_dropout_old_function_body) {
    (void)g, (void)node, (void)err;
    zt_function_body_names(b, "x -> y, mask");
    zt_function_body_add(b, "y = x; mask = Equal(x, x)");
    if (zt_function_body_wants(b, 1) && zt_out(g, node, 1)->dtype != ZT_BOOL)
        zt_function_body_add(b, "mask = Expand(1, %s)", zt_function_body_dims(b, &zt_out(g, node, 1)->shape));
    return true;
}

/* More outputs than one meant training: the new running statistics, then the batch's own. */
ZT_FUNCTION_BODY(zt_batch_norm_old_function_body) {
    struct zt_batch_norm n;
    if (!zt_batch_norm_read(g, node, 0, &n, err))
        return false;
    bool trains = g->nodes[node]->out_count > 1;
    zt_function_body_names(b, "x, scale, bias, mean, var -> y, new_mean, new_var, batch_mean, batch_var");
    zt_function_body_number(b, "epsilon", n.epsilon);
    zt_function_body_number(b, "keep", n.momentum);
    zt_function_body_add(b, "x = Reshape(x, [%lld, %lld, %lld]); channels = [%lld]; each = [1, %lld, 1]",
                         (long long)n.n, (long long)n.channels, (long long)n.spatial, (long long)n.channels,
                         (long long)n.channels);
    zt_function_body_add(b, "batch_mean = mean; batch_var = var");
    if (trains)
        zt_function_body_add(b,
                             "m = ReduceMean(x, [0, 2]); batch_mean = Reshape(m, channels);"
                             "batch_var = Reshape(ReduceMean((x - m) * (x - m), [0, 2]), channels)");
    zt_function_body_add(
        b, "new_mean = mean * keep + batch_mean * (1 - keep); new_var = var * keep + batch_var * (1 - keep)");
    zt_function_body_add(b,
                         "factor = Reshape(scale / Sqrt(batch_var + epsilon), each);"
                         "y = (x - Reshape(batch_mean, each)) * factor + Reshape(bias, each)");
    zt_function_body_add(b, "y = Reshape(y, %s)", zt_function_body_dims(b, &zt_out(g, node, 0)->shape));
    return true;
}
