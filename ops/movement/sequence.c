/* SplitToSequence and SequenceAt. There are no sequences at run time: the pair stands for a Split, one part of which
 * SequenceAt hands out.
 *
 *     s = SplitToSequence(x, split)      p0, p1, .. = Split(x, split); without `split` parts of one, and where keepdims
 *                                        is 0 without the axis
 *     y = SequenceAt(s, i)               y = Identity(p_i)
 *
 * Nothing else may read s, and i must be known. As both are reached in order (graph/passes/lower.h), the first gives
 * its parts to the second in place of s. */
#include "graph/passes/lower.h"
#include "ops/kernel/shape.h"

#include <limits.h>
#include <string.h>

/* ---- SequenceAt ---- */

static bool fail_sequence(struct zt_expansion *x, struct zt_err *err) {
    return zt_node_fail(x->g, x->node, err, "its sequence is not made by a SplitToSequence: no other is supported");
}

/* Inputs: the parts, then which of them, counted from the end where it is negative. */
static bool at_parts(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const int parts = n->in_count - 1;
    const struct zt_value *position = zt_in(x->g, x->node, parts);
    if (!position || zt_shape_count(&position->shape) != 1 || !zt_dtype_in(position->dtype, ZT_ANY_INT))
        return zt_node_fail(x->g, x->node, err, "its position is not one integer");
    if (!position->data)
        return zt_node_fail(x->g, x->node, err,
                            "its position \"%s\" depends on data: only one that follows from shapes and constants is "
                            "supported in training",
                            position->name);
    int64_t i = zt_load_int(position->dtype, position->data, 0);
    if (i < -parts || i >= parts)
        return zt_node_fail(x->g, x->node, err, "its position is %lld of a sequence of %d", (long long)i, parts);
    int part = n->in[i < 0 ? i + parts : i], out = n->out[0];
    x->done = true;
    return zt_expand_emit(x, &(struct zt_expand_node){ "Identity", &part, 1 }, &out, 1, err);
}

/* What a SequenceAt becomes once it has the parts. */
static const struct zt_op of_parts = {
    .name = "SequenceAt",
    .domain = "",
    .since = 11,
    .min_in = 2,
    .min_out = 1,
    .max_out = 1,
    .flags = ZT_OP_VARIADIC,
    .expand = at_parts,
};

const struct zt_op zt_op_sequence_at = {
    .name = "SequenceAt",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(2, 2),
    .no_grad_in = 1 << 1,
    .expand = fail_sequence,
};

/* ---- SplitToSequence ---- */

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
    if (parts < 1 || parts > most)
        return zt_node_fail(x->g, x->node, err, "makes %lld parts, 1 to %lld are supported", (long long)parts,
                            (long long)most);
    int64_t *size = ZT_NEW_N(x->g->arena, int64_t, (int)parts);
    for (int64_t i = 0; i < parts; i++)
        size[i] = listed ? zt_load_int(split->dtype, split->data, i) : i + 1 < parts ? each : whole - i * each;
    *count = (int)parts;
    *sizes = zt_graph_add_ints(x->g, NULL, size, *count);
    return true;
}

/* Gives the parts to every reader of the sequence. Who reads what is noted anew when all is expanded. */
static bool hand_out(struct zt_expansion *x, const int *part, int parts, struct zt_err *err) {
    struct zt_graph *g = x->g;
    const int sequence = g->nodes[x->node]->out[0];
    for (int i = 0; i < g->output_count; i++)
        if (g->outputs[i] == sequence)
            return zt_node_fail(g, x->node, err, "its sequence is an output of the graph, which is not supported");
    for (int r = 0; r < g->node_count; r++) {
        struct zt_node *n = g->nodes[r];
        int reads = 0;
        for (int i = 0; i < n->in_count; i++)
            reads += n->in[i] == sequence;
        if (n->dead || !reads)
            continue;
        if (n->op != &zt_op_sequence_at || n->in[0] != sequence || reads != 1)
            return zt_node_fail(g, x->node, err, "its sequence is read by %s (%s): only SequenceAt is supported",
                                n->name, n->op_type);
        int *in = ZT_NEW_N(g->arena, int, parts + 1);
        memcpy(in, part, (size_t)parts * sizeof *in);
        in[parts] = n->in[1];
        n->in = in;
        n->in_count = parts + 1;
        n->op = &of_parts;
    }
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
    if (!zt_expand_emit(x, &(struct zt_expand_node){ "Split", (const int[]){ n->in[0], sizes }, 2, &along, 1 }, part,
                        parts, err))
        return false;
    const bool squeeze = !zt_in(x->g, x->node, 1) && !zt_attr_int(n, "keepdims", 1);
    const int axes = squeeze ? zt_graph_add_ints(x->g, NULL, &(int64_t){ axis }, 1) : -1;
    for (int i = 0; squeeze && i < parts; i++) {
        const int in[2] = { part[i], axes };
        part[i] = -1;
        if (!zt_expand_emit(x, &(struct zt_expand_node){ "Squeeze", in, 2 }, &part[i], 1, err))
            return false;
    }
    x->done = true;
    return hand_out(x, part, parts, err);
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
