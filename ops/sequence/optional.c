/* Optional, OptionalGetElement, OptionalHasElement. The latter two also take what is no optional, which is an element
 * that is there: opset 18 says so, and a Loop of opset 16 may begin with an optional state and go on with its element.
 * From opset 18 on OptionalHasElement takes no input at all. */
#include "ops/kernel/shape.h"
#include "ops/sequence/sequence.h"

/* An optional of this element, or an empty one of the attribute `type`. */
static bool optional_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const struct zt_attr *type = zt_node_attr(n, "type");
    const struct zt_value *v = zt_in(x->g, x->node, 0);
    struct zt_list list = { .kind = ZT_OPTIONAL, .count = v != NULL, .at = n->in };
    if (!v && !type)
        return zt_node_fail(x->g, x->node, err, "has neither an input nor the attribute \"type\"");
    const struct zt_list *inner = v ? v->list : type->list;
    if (inner && inner->kind == ZT_OPTIONAL)
        return zt_node_fail(x->g, x->node, err, "its element is an optional, which is not supported");
    list.of_sequence = inner != NULL;
    list.dtype = inner ? inner->dtype : v ? v->dtype : type->tensor.dtype;
    if (!zt_dtype_in(list.dtype, ZT_ANY_TYPE))
        return zt_node_fail(x->g, x->node, err,
                            "its element is neither a tensor nor a sequence of tensors of a type that ztrain computes "
                            "with");
    return zt_sequence_done(x, &list, err);
}

static bool get_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_value *v = zt_in(x->g, x->node, 0);
    const bool optional = v->list && v->list->kind == ZT_OPTIONAL;
    if (optional && !v->list->count)
        return zt_node_fail(x->g, x->node, err, "its optional \"%s\" has no element", v->name);
    x->done = true;
    return zt_sequence_hand_out(x, 0, optional ? v->list->at[0] : v->id, err);
}

static bool has_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_value *v = zt_in(x->g, x->node, 0);
    const bool has = v && (!v->list || v->list->kind == ZT_SEQUENCE || v->list->count);
    x->done = true;
    return zt_sequence_hand_out(x, 0, zt_graph_add_constant(x->g, NULL, ZT_BOOL, &(struct zt_shape){ 0 }, &has), err);
}

static const struct zt_attr_spec optional_attrs[] = { { "type", ZT_ATTR_TYPE }, { 0 } };

const struct zt_op zt_op_optional = {
    .name = "Optional",
    .domain = "",
    .since = 15,
    ZT_ONE_OUT(0, 1),
    .flags = ZT_OP_LISTS,
    .attrs = optional_attrs,
    .expand = optional_expand,
};
const struct zt_op zt_op_optional_get_element = {
    .name = "OptionalGetElement",
    .domain = "",
    .since = 15,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LISTS,
    .expand = get_expand,
};
const struct zt_op zt_op_optional_has_element_15 = {
    .name = "OptionalHasElement",
    .domain = "",
    .since = 15,
    .until = 17,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LISTS,
    .no_grad_in = 1 << 0,
    .expand = has_expand,
};
const struct zt_op zt_op_optional_has_element = {
    .name = "OptionalHasElement",
    .domain = "",
    .since = 18,
    ZT_ONE_OUT(0, 1),
    .flags = ZT_OP_LISTS,
    .no_grad_in = 1 << 0,
    .expand = has_expand,
};
