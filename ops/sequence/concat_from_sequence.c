/* ConcatFromSequence: Concat of the elements along `axis`; with new_axis of the elements stacked along a new axis. */
#include "ops/kernel/shape.h"
#include "ops/sequence/sequence.h"

/* The elements with a new axis, in place of themselves. */
static bool unsqueeze(struct zt_expansion *x, int *at, int count, int64_t axis, struct zt_err *err) {
    const int axes = zt_graph_add_ints(x->g, NULL, &axis, 1);
    for (int i = 0; i < count; i++) {
        const int in[2] = { at[i], axes };
        at[i] = -1;
        if (!zt_expand_emit(x, &(struct zt_expand_node){ "Unsqueeze", in, 2 }, &at[i], 1, err))
            return false;
    }
    return true;
}

static bool concat_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const struct zt_list *list = zt_sequence_in(x, 0, err);
    const int64_t new_axis = zt_attr_int(n, "new_axis", 0);
    int axis, out = n->out[0];
    if (!list)
        return false;
    if (list->count == 0)
        return zt_node_fail(x->g, x->node, err, "its sequence \"%s\" is empty", zt_in(x->g, x->node, 0)->name);
    if (new_axis != 0 && new_axis != 1)
        return zt_node_fail(x->g, x->node, err, "new_axis is %lld, wants 0 or 1", (long long)new_axis);
    const int rank = x->g->values[list->at[0]]->shape.rank + (int)new_axis;
    if (!zt_ops_rank(x->g, x->node, rank, err) || !zt_axis(x->g, x->node, zt_attr_int(n, "axis", 0), rank, &axis, err))
        return false;
    int *at = zt_arena_copy(x->g->arena, list->at, (size_t)list->count * sizeof *at);
    const struct zt_attr along = { .name = "axis", .type = ZT_ATTR_INT, .i = axis };
    x->done = true;
    return (!new_axis || unsqueeze(x, at, list->count, axis, err)) &&
           zt_expand_emit(x, &(struct zt_expand_node){ "Concat", at, list->count, &along, 1 }, &out, 1, err);
}

static const struct zt_attr_spec concat_attrs[] = { { "axis", ZT_ATTR_INT, true }, { "new_axis", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_concat_from_sequence = {
    .name = "ConcatFromSequence",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LISTS,
    .attrs = concat_attrs,
    .expand = concat_expand,
};
