/* SplitToSequence: the parts of a Split.
 *
 *     s = SplitToSequence(x, split)      p0, p1, .. = Split(x, split); without `split` parts of one, and where keepdims
 *                                        is 0 without the axis
 */
#include "ops/kernel/shape.h"
#include "ops/sequence/sequence.h"

#include <string.h>

/* Sizes of the parts as an input of Split, and how many there are. */
static bool sizes_of(struct zt_expansion *x, int axis, int *sizes, int *count, struct zt_err *err) {
    const struct zt_value *v = zt_in(x->g, x->node, 0), *split = zt_in(x->g, x->node, 1);
    const int64_t whole = v->shape.dim[axis], most = zt_op_find(x->g->table, "", "Split", ZT_OPSET)->max_out;
    const bool listed = split && split->shape.rank == 1;
    int64_t each = 1, parts = whole;
    if (split && (split->shape.rank > 1 || !split->data))
        return zt_node_fail(x->g, x->node, err, "its sizes \"%s\" are not known, or not a number or a list",
                            split->name);
    if (split && !listed)
        each = zt_load_int(split->dtype, split->data, 0);
    if (each < 1)
        return zt_node_fail(x->g, x->node, err, "the size of its parts is %lld", (long long)each);
    parts = listed ? split->shape.dim[0] : whole / each + (whole % each != 0);
    if (!parts && whole)
        return zt_node_fail(x->g, x->node, err, "makes no parts of an axis of %lld", (long long)whole);
    if (parts > most)
        return zt_node_fail(x->g, x->node, err, "makes %lld parts, %lld is the limit", (long long)parts,
                            (long long)most);
    int64_t *size = ZT_NEW_N(x->g->arena, int64_t, (int)parts);
    for (int64_t i = 0; i < parts; i++)
        size[i] = listed ? zt_load_int(split->dtype, split->data, i) : i + 1 < parts ? each : whole - i * each;
    *count = (int)parts;
    *sizes = zt_graph_add_ints(x->g, NULL, size, *count);
    return true;
}

static bool split_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    int axis, sizes = -1, parts = 0;
    if (!zt_axis(x->g, x->node, zt_attr_int(n, "axis", 0), zt_in(x->g, x->node, 0)->shape.rank, &axis, err) ||
        !sizes_of(x, axis, &sizes, &parts, err))
        return false;
    int *part = ZT_NEW_N(x->g->arena, int, parts);
    memset(part, -1, (size_t)parts * sizeof *part);
    const struct zt_attr along = { .name = "axis", .type = ZT_ATTR_INT, .i = axis };
    if (parts && !zt_expand_emit(x, &(struct zt_expand_node){ "Split", (const int[]){ n->in[0], sizes }, 2, &along, 1 },
                                 part, parts, err))
        return false;
    const bool squeeze = !zt_in(x->g, x->node, 1) && !zt_attr_int(n, "keepdims", 1);
    const int axes = squeeze ? zt_graph_add_ints(x->g, NULL, &(int64_t){ axis }, 1) : -1;
    for (int i = 0; squeeze && i < parts; i++) {
        const int in[2] = { part[i], axes };
        part[i] = -1;
        if (!zt_expand_emit(x, &(struct zt_expand_node){ "Squeeze", in, 2 }, &part[i], 1, err))
            return false;
    }
    return zt_sequence_done(
        x,
        &(struct zt_list){ .kind = ZT_SEQUENCE, .dtype = zt_in(x->g, x->node, 0)->dtype, .count = parts, .at = part },
        err);
}

static const struct zt_attr_spec split_attrs[] = { { "axis", ZT_ATTR_INT }, { "keepdims", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_split_to_sequence = {
    .name = "SplitToSequence",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(1, 2),
    .in_types = { 0, ZT_ANY_INT },
    .attrs = split_attrs,
    .no_grad_in = 1 << 1,
    .expand = split_expand,
};
