/* Concat and Split along an axis; each is the other's gradient. */
#include "ops/movement/kernels.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/movement/simd/gather_lanes.h"
#include "ops/kernel/strided_copies.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* ---- Concat ---- */

static bool concat_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *first = zt_in(g, node, 0);
    struct zt_shape shape = first->shape;
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), shape.rank, &axis, err))
        return false;
    for (int i = 1; i < g->nodes[node]->in_count; i++) {
        const struct zt_value *x = zt_in(g, node, i);
        if (!x)
            return zt_node_fail(g, node, err, "input %d is missing", i);
        struct zt_shape other = x->shape;
        if (other.rank == shape.rank)
            other.dim[axis] = shape.dim[axis];
        if (x->dtype != first->dtype || !zt_shape_equal(&other, &shape))
            return zt_node_fail(g, node, err, "\"%s\" and \"%s\" differ in type or outside axis %d", x->name,
                                first->name, axis);
        if (!zt_ops_dim_sum(g, node, shape.dim[axis], x->shape.dim[axis], &shape.dim[axis], err))
            return false;
    }
    zt_set_out(g, node, 0, first->dtype, &shape);
    return true;
}

static int axis_of(const struct zt_node *node, int rank, int64_t otherwise) {
    int64_t axis = zt_attr_int(node, "axis", otherwise);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* A slab of two tensors that agree outside `axis`: where it is in the whole from index `at` on, and in the part. */
struct slab {
    struct zt_shape walk; /* before the axis, along it, behind it */
    int64_t start, whole_step[3], part_step[3];
};

static struct slab slab_of(const struct zt_shape *whole, const struct zt_shape *part, int axis, int64_t at) {
    const int64_t inner = zt_dims(part, axis + 1, part->rank), along = part->dim[axis];
    return (struct slab){ { 3, { zt_dims(part, 0, axis), along, inner } },
                          at * inner,
                          { whole->dim[axis] * inner, inner, 1 },
                          { along * inner, inner, 1 } };
}

static bool concat_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                         struct zt_err *err) {
    (void)err;
    const struct zt_shape *whole = &zt_out(g, node, 0)->shape;
    const int axis = axis_of(g->nodes[node], whole->rank, 1);
    int64_t at = 0;
    for (int i = 0; i < g->nodes[node]->in_count; i++) {
        const struct zt_shape *part = &zt_in(g, node, i)->shape;
        const struct slab slab = slab_of(whole, part, axis, at);
        struct zt_strided_copy move = { .in = i, .shape = slab.walk, .to = slab.start };
        memcpy(move.to_step, slab.whole_step, sizeof slab.whole_step);
        memcpy(move.from_step, slab.part_step, sizeof slab.part_step);
        take(arg, &move);
        at += part->dim[axis];
    }
    return true;
}
ZT_MOVES_DESCRIBE(concat, false)

/* Parts of fewer channels may bring more groups to a block of the result than a vector loop gathers. */
enum { FEW_PARTS = 3, CHANNELS = 8 };

static bool joins_within_blocks(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    bool joins = zt_joins_within_blocks(zt_in(g, node, 0)->dtype);
    for (int i = 0; joins && n->in_count > FEW_PARTS && i < n->in_count; i++)
        joins = zt_in(g, node, i)->shape.dim[1] >= CHANNELS;
    return joins;
}

static bool concat_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = p->graph->nodes[p->node];
    if (axis_of(n, zt_in(p->graph, p->node, 0)->shape.rank, 1) == 1)
        zt_layout_ranges(p, n->in_count, 0, joins_within_blocks(p->graph, p->node));
    else
        zt_layout_plain(p);
    return true;
}

static bool any_within_block(const struct zt_view *v, int count) {
    bool any = false;
    for (int i = 0; !any && i < count; i++)
        any = zt_is_within_block(&v[i], 0);
    return any;
}

static bool concat_run(const struct zt_call *call, struct zt_err *err) {
    if (!any_within_block(call->in, call->in_count))
        return zt_strided_copies_run(call, concat_moves, err);
    zt_join_channels(call->threads, &call->out[0], call->in, 0);
    return true;
}

/* dx_i = the slice of dy that x_i became. The largest sizes of x_i may add up to more than that of dy (concat_bound);
 * then only the memory of dx_i matters. */
static bool concat_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0), count = zt_grad_graph(b)->nodes[node]->in_count;
    int axis = axis_of(zt_grad_graph(b)->nodes[node], zt_grad_in_shape(b, node, 0)->rank, 1);
    const int64_t whole = zt_out(zt_grad_graph(b), node, 0)->shape.dim[axis];
    int64_t start = 0, end, sum = 0;
    for (int i = 0; i < count; i++)
        sum += zt_grad_in_shape(b, node, i)->dim[axis];
    for (int i = 0; i < count; i++, start = end) {
        end = start + zt_grad_in_shape(b, node, i)->dim[axis];
        if (!zt_grad_wanted(b, node, i))
            continue;
        if (sum > whole) {
            zt_grad_give(b, node, i, zt_emit_zeros_like(b, zt_grad_graph(b)->nodes[node]->in[i]));
            continue;
        }
        int from = zt_emit_ints(b, &start, 1), to = zt_emit_ints(b, &end, 1);
        zt_grad_give(b, node, i, ZT_EMIT(b, "Slice", dy, from, to, zt_emit_ints(b, &(int64_t){ axis }, 1)));
    }
    return true;
}

/* ---- Split ---- */

enum { MOST_PARTS = 1024 };

/* Sizes of the parts: stated, else as equal as whole numbers allow with the smaller ones last. */
static bool sizes_of(const struct zt_graph *g, int node, int64_t whole, int64_t size[MOST_PARTS], struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    int given, parts = n->out_count;
    if (!zt_ops_ints(g, node, (struct zt_int_source){ 1, "split" }, &(struct zt_int_list){ size, MOST_PARTS, &given },
                     err))
        return false;
    if (given >= 0 && given != parts)
        return zt_node_fail(g, node, err, "has %d outputs and %d sizes", parts, given);
    if (zt_attr_int(n, "num_outputs", parts) != parts)
        return zt_node_fail(g, node, err, "has %d outputs, num_outputs is %lld", parts,
                            (long long)zt_attr_int(n, "num_outputs", parts));
    int64_t left = whole, each = whole / parts + (whole % parts != 0);
    for (int i = 0; i < parts && given < 0; left -= size[i++])
        size[i] = left < each ? left : each;
    return true;
}

/* The sizes must add up to `whole`, or may leave `over` of it. */
static bool check_sum(const struct zt_graph *g, int node, int64_t whole, int64_t over, const int64_t *size,
                      struct zt_err *err) {
    int64_t sum = 0;
    for (int i = 0; i < g->nodes[node]->out_count; i++) {
        if (size[i] < 0)
            return zt_node_fail(g, node, err, "size %d is %lld", i, (long long)size[i]);
        if (!zt_ops_dim_sum(g, node, sum, size[i], &sum, err))
            return false;
    }
    if (sum > whole)
        return zt_node_fail(g, node, err, "its sizes add up to %lld, but its axis has %lld elements", (long long)sum,
                            (long long)whole);
    return whole - sum <= over || zt_node_fail(g, node, err, "its sizes leave %lld of the %lld along its axis over",
                                               (long long)(whole - sum), (long long)whole);
}

static bool set_parts(struct zt_graph *g, int node, int axis, const int64_t *size, struct zt_err *err) {
    struct zt_shape shape = zt_in(g, node, 0)->shape;
    for (int i = 0; i < g->nodes[node]->out_count; i++) {
        if (!zt_out(g, node, i))
            return zt_node_fail(g, node, err, "output %d has no name", i);
        shape.dim[axis] = size[i];
        zt_set_out(g, node, i, zt_in(g, node, 0)->dtype, &shape);
    }
    return true;
}

static bool split_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    int64_t size[MOST_PARTS];
    int axis;
    return zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 0), x->rank, &axis, err) &&
           sizes_of(g, node, x->dim[axis], size, err) && check_sum(g, node, x->dim[axis], 0, size, err) &&
           set_parts(g, node, axis, size, err);
}

/* Stated sizes stay as they are, of an axis that may be longer than in the step; each size that the step computes may
 * be the whole axis. `less` takes one from each equal part. */
static bool split_bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    const struct zt_value *stated = zt_in(g, node, 1);
    const int parts = g->nodes[node]->out_count;
    int64_t size[MOST_PARTS];
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 0), x->rank, &axis, err))
        return false;
    const int64_t whole = x->dim[axis], fewer = less ? parts - 1 : 0;
    if (stated && !stated->data) {
        if (zt_shape_count(&stated->shape) != parts)
            return zt_node_fail(g, node, err, "has %d outputs and %lld sizes", parts,
                                (long long)zt_shape_count(&stated->shape));
        for (int i = 0; i < parts; i++)
            size[i] = whole - (less && whole > 0);
        return set_parts(g, node, axis, size, err);
    }
    return sizes_of(g, node, whole > fewer ? whole - fewer : 0, size, err) &&
           (less || check_sum(g, node, whole, whole, size, err)) && set_parts(g, node, axis, size, err);
}

static bool split_moves(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg, struct zt_err *err) {
    const struct zt_shape *whole = &zt_in(g, node, 0)->shape;
    const int axis = axis_of(g->nodes[node], whole->rank, 0);
    int64_t size[MOST_PARTS], at = 0;
    if (!sizes_of(g, node, whole->dim[axis], size, err))
        return false;
    for (int i = 0; i < g->nodes[node]->out_count; at += size[i++]) {
        struct zt_shape part = *whole;
        part.dim[axis] = size[i];
        const struct slab slab = slab_of(whole, &part, axis, at);
        struct zt_strided_copy move = { .out = i, .shape = slab.walk, .from = slab.start };
        memcpy(move.from_step, slab.whole_step, sizeof slab.whole_step);
        memcpy(move.to_step, slab.part_step, sizeof slab.part_step);
        take(arg, &move);
    }
    return true;
}
ZT_MOVES_DESCRIBE(split, false)

static bool split_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    if (axis_of(p->graph->nodes[p->node], zt_in(p->graph, p->node, 0)->shape.rank, 0) == 1)
        zt_layout_ranges(p, 1, 0, zt_joins_within_blocks(zt_in(p->graph, p->node, 0)->dtype));
    else
        zt_layout_plain(p);
    return true;
}

static bool split_run(const struct zt_call *call, struct zt_err *err) {
    if (!any_within_block(call->out, call->out_count))
        return zt_strided_copies_run(call, split_moves, err);
    int64_t first = 0;
    for (int i = 0; i < call->out_count; first += call->out[i++].shape.dim[1])
        zt_join_channels(call->threads, &call->out[i], &call->in[0], first);
    return true;
}

/* dx = the gradients of the parts joined, zeros where a part has none. The largest sizes of parts need not add up to
 * the largest size of x (split_bound); then only the memory of dx matters. */
static bool split_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_shape *x = zt_grad_in_shape(b, node, 0);
    int parts[MOST_PARTS], count = n->out_count, dx, axis = axis_of(n, x->rank, 0);
    int64_t left = x->dim[axis];
    for (int i = 0; i < count; i++) {
        parts[i] = zt_grad_out_or_zero(b, node, i);
        left -= zt_out(zt_grad_graph(b), node, i)->shape.dim[axis];
    }
    if (left) {
        zt_grad_give(b, node, 0, zt_emit_zeros_like(b, n->in[0]));
        return true;
    }
    struct zt_attr attr = { .name = "axis", .type = ZT_ATTR_INT, .i = axis };
    zt_emit_node(b, &(struct zt_emission){ "Concat", "", parts, count, NULL, &attr, 1 }, &dx, 1);
    zt_grad_give(b, node, 0, dx);
    return true;
}

static const struct zt_attr_spec with_axis[] = { { "axis", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec split_attrs_2[] = { { "axis", ZT_ATTR_INT }, { "split", ZT_ATTR_INTS }, { 0 } };
static const struct zt_attr_spec split_attrs_18[] = { { "axis", ZT_ATTR_INT }, { "num_outputs", ZT_ATTR_INT }, { 0 } };

#define SPLIT_ROW(id, SINCE, UNTIL, MOST_IN, ATTRS)                                                                    \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = "Split",                                                                                               \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        .until = UNTIL,                                                                                                \
        .min_in = 1,                                                                                                   \
        .max_in = MOST_IN,                                                                                             \
        .min_out = 1,                                                                                                  \
        .max_out = MOST_PARTS,                                                                                         \
        .flags = ZT_OP_LIGHT | ZT_OP_PASSES_HALF | ZT_OP_SHARES,                                                       \
        .in_types = { 0, ZT_BIT(ZT_INT64) },                                                                           \
        .attrs = ATTRS,                                                                                                \
        .infer = split_infer,                                                                                          \
        .bound = split_bound,                                                                                          \
        .grad = split_grad,                                                                                            \
        .no_grad_in = 1 << 1,                                                                                          \
        .body = zt_split_old_function_body,                                                                            \
        .kernel = { [ZT_REF] = { .run = split_run },                                                                   \
                    [ZT_CPU] = { .prepare = split_prepare, .run = split_run },                                         \
                    [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, split_describe) },                             \
    };

SPLIT_ROW(split_2, 2, 12, 1, split_attrs_2)
SPLIT_ROW(split_13, 13, 17, 2, with_axis)
SPLIT_ROW(split, 18, 0, 2, split_attrs_18)

/* ---- parts of a Split joined again ---- */

/* Whether sizes that the step computes share out axis `axis` of the node's input. */
static bool shares_out(const struct zt_graph *g, const struct zt_node *split, int axis) {
    const struct zt_value *x = g->values[split->in[0]], *sizes = zt_in(g, split->index, 1);
    return sizes && !sizes->data && axis_of(split, x->shape.rank, 0) == axis;
}

/* The axis of the value that has `size` elements, `axis` if it has; -1: none or several others have. */
static int axis_with(const struct zt_value *v, int64_t size, int axis) {
    int found = -1, count = 0;
    for (int i = 0; i < v->shape.rank; i++)
        if (v->shape.dim[i] == size) {
            found = i;
            count++;
        }
    if (axis < v->shape.rank && v->shape.dim[axis] == size)
        return axis;
    return count == 1 ? found : -1;
}

/* The first input that is no constant and has such an axis, which it sets; -1: none. */
static int input_with(const struct zt_graph *g, const struct zt_node *n, int64_t size, int *axis) {
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_value *v = n->in[i] >= 0 ? g->values[n->in[i]] : NULL;
        const int has = v && !zt_value_is_constant(v) ? axis_with(v, size, *axis) : -1;
        if (has >= 0) {
            *axis = has;
            return v->id;
        }
    }
    return -1;
}

/* The output of a Split with sizes that the step computes whose rows `value` has along `axis`, through nodes that keep
 * their number; -1: none. */
static int part_of(const struct zt_graph *g, int value, int axis) {
    const int64_t size = g->values[value]->shape.dim[axis];
    while (value >= 0 && g->values[value]->producer >= 0) {
        const struct zt_node *n = g->nodes[g->values[value]->producer];
        const bool split = n->op && (n->op->flags & ZT_OP_SHARES);
        if (split && shares_out(g, n, axis))
            return value;
        if (!n->op || (n->op->bound && (!split || axis_of(n, g->values[value]->shape.rank, 0) == axis)))
            return -1;
        value = input_with(g, n, size, &axis);
    }
    return -1;
}

/* The length of the axis that the inputs' rows share out, each part once; -1: they do not. */
static int64_t shared_length(const struct zt_graph *g, int node, int axis) {
    const struct zt_node *n = g->nodes[node], *split = NULL;
    bool has[MOST_PARTS] = { 0 };
    for (int i = 0; i < n->in_count; i++) {
        const int part = part_of(g, n->in[i], axis);
        const struct zt_node *from = part >= 0 ? g->nodes[g->values[part]->producer] : NULL;
        if (!from || (split && from != split) || from->out_count != n->in_count)
            return -1;
        split = from;
        for (int k = 0; k < split->out_count; k++)
            if (split->out[k] == part) {
                if (has[k])
                    return -1;
                has[k] = true;
            }
    }
    const struct zt_shape *whole = &g->values[split->in[0]]->shape;
    return whole->dim[axis_of(split, whole->rank, 0)];
}

/* Each part that a Split with sizes of the step makes may be the whole axis; all of them together are no longer than
 * it. */
static bool concat_bound(struct zt_graph *g, int node, bool less, struct zt_err *err) {
    (void)less;
    if (!concat_infer(g, node, err))
        return false;
    struct zt_value *y = zt_out(g, node, 0);
    const int axis = axis_of(g->nodes[node], y->shape.rank, 1);
    const int64_t length = y->data ? -1 : shared_length(g, node, axis);
    if (length >= 0)
        y->shape.dim[axis] = length;
    return true;
}

static const struct zt_attr_spec concat_attrs[] = { { "axis", ZT_ATTR_INT, true }, { 0 } };

const struct zt_op zt_op_concat = {
    .name = "Concat",
    .domain = "",
    .since = 4,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_VARIADIC | ZT_OP_LIGHT | ZT_OP_PASSES_HALF | ZT_OP_JOINS,
    .attrs = concat_attrs,
    .infer = concat_infer,
    .bound = concat_bound,
    .grad = concat_grad,
    .kernel = { [ZT_REF] = { .run = concat_run },
                [ZT_CPU] = { .prepare = concat_prepare, .run = concat_run },
                [ZT_CUDA] = ZT_CUDA_AS(strided_copies, zt_cuda_any, concat_describe) },
};
