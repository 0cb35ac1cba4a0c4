/* What Concat joins out of Slices, Splits and other Concats of parameters, or of what becomes their gradients, is
 * copied once on the CPU:
 *
 *     Concat(Concat(a[2:3], a[0:1]), b)   ->   JoinRanges(a, b)
 *
 * Exporters write the gates of recurrent nodes in another order and join the directions; the gradient does the same
 * backwards. Only nodes whose parts are ranges of adjacent elements are looked through: those along an axis behind axes
 * of size 1, and views. */
#include "graph/passes/fusion/fuse.h"
#include "ops/kernel/shape.h"
#include "ops/movement/join_ranges.h"
#include "ops/movement/slice.h"

#include <string.h>

enum { MOST_DEPTH = 16 };

/* The ranges of a Concat; `input` is a value. */
struct search {
    const struct zt_graph *g;
    int node; /* the Concat */
    struct zt_ranges found;
    bool copies; /* what was looked through copies elements */
};

struct range {
    int value;
    int64_t start, size;
};

static bool add(struct search *s, struct range r) {
    struct zt_ranges *f = &s->found;
    const int last = f->count - 1;
    if (r.size == 0)
        return true;
    if (last >= 0 && f->input[last] == r.value && f->start[last] + f->size[last] == r.start) {
        f->size[last] += r.size;
        return true;
    }
    if (f->count == ZT_MOST_RANGES)
        return false;
    f->input[f->count] = r.value;
    f->start[f->count] = r.start;
    f->size[f->count++] = r.size;
    return true;
}

/* Whether ranges along the axis are adjacent elements; an axis may count from the end. */
static bool leads(const struct zt_shape *shape, int64_t axis) {
    return zt_dims(shape, 0, (int)(axis < 0 ? axis + shape->rank : axis)) == 1;
}

static bool resolve(struct search *s, struct range r, int depth);

static bool resolve_concat(struct search *s, const struct zt_node *n, struct range r, int depth) {
    bool ok = leads(&s->g->values[n->out[0]]->shape, zt_attr_int(n, "axis", 1));
    int64_t at = 0;
    for (int i = 0; ok && i < n->in_count; i++) {
        const int64_t size = zt_shape_count(&s->g->values[n->in[i]]->shape);
        const int64_t first = r.start > at ? r.start : at,
                      end = r.start + r.size < at + size ? r.start + r.size : at + size;
        if (first < end)
            ok = resolve(s, (struct range){ n->in[i], first - at, end - first }, depth);
        at += size;
    }
    return ok;
}

/* Where the elements of r, an output of a Split or a Slice, begin in its input; -1: they are not adjacent there. */
static int64_t offset_in(const struct zt_graph *g, const struct zt_node *n, int value) {
    const struct zt_shape *x = &zt_in(g, n->index, 0)->shape;
    struct zt_slice_bounds cut;
    struct zt_err ignored = { 0 };
    int64_t at = 0;
    if (zt_node_is(n, "Split")) {
        for (int i = 0; n->out[i] != value; i++)
            at += zt_shape_count(&g->values[n->out[i]]->shape);
        return leads(x, zt_attr_int(n, "axis", 0)) ? at : -1;
    }
    if (!zt_node_is(n, "Slice") || !zt_slice_read(g, n->index, &cut, &ignored))
        return -1;
    int axis = 0;
    while (axis < x->rank && cut.shape.dim[axis] == x->dim[axis])
        axis++;
    for (int k = axis + 1; k < x->rank; k++)
        if (cut.shape.dim[k] != x->dim[k])
            return -1;
    if (axis == x->rank || !leads(x, axis) || cut.step[axis] != 1)
        return axis == x->rank && cut.step[0] == 1 ? 0 : -1;
    return cut.start[axis] * zt_dims(x, axis + 1, x->rank);
}

/* Adds the ranges that r consists of. */
static bool resolve(struct search *s, struct range r, int depth) {
    const struct zt_graph *g = s->g;
    const struct zt_node *at = g->nodes[s->node], *n = NULL;
    if (g->values[r.value]->origin == ZT_FROM_NODE && g->values[r.value]->producer >= 0)
        n = g->nodes[g->values[r.value]->producer];
    if (!n || n->dead || n->phase != at->phase || n->stage != at->stage || depth == MOST_DEPTH)
        return add(s, r);
    if (zt_op_is_view(n))
        return resolve(s, (struct range){ n->in[0], r.start, r.size }, depth + 1);
    const struct zt_ranges before = s->found;
    const bool copied = s->copies;
    s->copies = true;
    if (zt_node_is(n, "Concat") && resolve_concat(s, n, r, depth + 1))
        return true;
    s->found = before;
    const int64_t offset = zt_node_is(n, "Concat") ? -1 : offset_in(g, n, r.value);
    if (offset >= 0)
        return resolve(s, (struct range){ n->in[0], offset + r.start, r.size }, depth + 1);
    s->copies = copied;
    return add(s, r);
}

/* Whether the Concat makes a parameter's gradient, or joins nothing but parameters: fewer copies, and no tensor that is
 * needed for longer. */
static bool serves(const struct search *s) {
    const struct zt_graph *g = s->g;
    if (zt_graph_is_output(g, g->nodes[s->node]->out[0]))
        return true;
    for (int i = 0; i < s->found.count; i++)
        if (g->values[s->found.input[i]]->origin != ZT_FROM_INITIALIZER)
            return false;
    return true;
}

/* Marks the maker of a value that nothing reads any more dead, then those of its inputs. */
static void drop(struct zt_graph *g, int value) {
    const int from = value >= 0 && g->values[value]->origin == ZT_FROM_NODE ? g->values[value]->producer : -1;
    if (from < 0 || g->nodes[from]->dead)
        return;
    for (int i = 0; i < g->nodes[from]->out_count; i++) {
        const int out = g->nodes[from]->out[i];
        if (out >= 0 && (zt_graph_users(g, out, NULL) > 0 || zt_graph_is_output(g, out)))
            return;
    }
    g->nodes[from]->dead = true;
    for (int i = 0; i < g->nodes[from]->in_count; i++)
        drop(g, g->nodes[from]->in[i]);
}

/* Replaces values in found->input by their numbers among the inputs, and lists these. */
static int list_inputs(struct zt_ranges *found, int *in) {
    int count = 0;
    for (int i = 0; i < found->count; i++) {
        int k = 0;
        while (k < count && in[k] != found->input[i])
            k++;
        in[k] = (int)found->input[i];
        count += k == count;
        found->input[i] = k;
    }
    return count;
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct search s = { g, node, .copies = false };
    const struct zt_node n = *g->nodes[node];
    if (!zt_node_is(&n, "Concat"))
        return false;
    const struct zt_shape y = zt_out(g, node, 0)->shape;
    if (!resolve_concat(&s, &n, (struct range){ n.out[0], 0, zt_shape_count(&y) }, 0) || !s.copies || !serves(&s))
        return false;
    int in[ZT_MOST_RANGES];
    const int count = list_inputs(&s.found, in);
    struct zt_node like = { .name = n.name };
    if (!count)
        return false;
    const struct zt_attr lists[] = {
        { .name = "inputs", .type = ZT_ATTR_INTS, .ints = s.found.input, .count = s.found.count },
        { .name = "starts", .type = ZT_ATTR_INTS, .ints = s.found.start, .count = s.found.count },
        { .name = "counts", .type = ZT_ATTR_INTS, .ints = s.found.size, .count = s.found.count },
        { .name = "shape", .type = ZT_ATTR_INTS, .ints = (int64_t *)y.dim, .count = y.rank },
    };
    like.attr_count = 4;
    like.attr = zt_arena_copy(g->arena, lists, sizeof lists);
    for (int i = 0; i < 4; i++)
        like.attr[i].ints = zt_arena_copy(g->arena, lists[i].ints, (size_t)lists[i].count * sizeof *lists[i].ints);
    if (!zt_fuse_replace(g, table, node, &(struct zt_fused_node){ "JoinRanges", in, count, NULL, 0, &like }, err))
        return false;
    for (int i = 0; i < n.in_count; i++)
        drop(g, n.in[i]);
    return true;
}

const struct zt_pattern zt_pattern_ranges = { "ranges", 1 << ZT_CPU, apply };
