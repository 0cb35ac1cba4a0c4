/* Slices that cut one tensor into parts become a Split:
 *
 *     a = x[0:2]  b = x[2:5]  ..  z = x[n-1:n]   ->   a, b, .., z = Split(x)
 *
 * The gradient of a Slice is a whole tensor of zeros around dy, so that n of them write and add n times the size of x;
 * that of a Split is one Concat. Exported loops over the rows of a tensor make such Slices, written out, and
 * exported recurrent nodes, whose gates stand in another order. */
#include "graph/passes/fusion/fuse.h"

#include <stdlib.h>

enum { LEAST_PARTS = 2 };

struct part {
    int node;
    int64_t start, size;
};

/* The one number of an input of a Slice, `otherwise` where the node has it not; false where it is not known. */
static bool read_number(const struct zt_graph *g, int node, int in, int64_t otherwise, int64_t *to) {
    const struct zt_value *v = zt_in(g, node, in);
    *to = otherwise;
    if (!v)
        return true;
    if (!zt_value_is_constant(v) || zt_shape_count(&v->shape) != 1)
        return false;
    *to = zt_load_int(v->dtype, v->data, 0);
    return true;
}

/* Reads the part that a Slice along one axis with step 1 selects; false for any other node. */
static bool read_part(const struct zt_graph *g, int node, int *axis, struct part *to) {
    const struct zt_node *n = g->nodes[node];
    int64_t start, step, along;
    if (n->dead || !zt_node_is(n, "Slice") || n->in_count < 3 || !read_number(g, node, 1, 0, &start) ||
        !read_number(g, node, 3, 0, &along) || !read_number(g, node, 4, 1, &step) || step != 1)
        return false;
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    *axis = (int)(along < 0 ? along + x->rank : along);
    start = start < 0 ? start + x->dim[*axis] : start;
    *to = (struct part){ node, start < 0 ? 0 : start, zt_out(g, node, 0)->shape.dim[*axis] };
    return true;
}

static int by_start(const void *a, const void *b) {
    const struct part *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start) : x->node - y->node;
}

/* The Slices of the same tensor along the same axis, sorted. Free the array. */
static int list_parts(const struct zt_graph *g, int node, int axis, struct part **to) {
    const struct zt_node *n = g->nodes[node];
    const int most = zt_graph_users(g, n->in[0], NULL);
    int count = 0, other;
    *to = zt_malloc(((size_t)most + 1) * sizeof **to);
    for (int i = 0; i < g->node_count && count < most; i++) {
        const bool same = g->nodes[i]->in_count && g->nodes[i]->in[0] == n->in[0] && g->nodes[i]->phase == n->phase &&
                          g->nodes[i]->stage == n->stage;
        if (same && read_part(g, i, &other, &(*to)[count]))
            count += other == axis;
    }
    qsort(*to, (size_t)count, sizeof **to, by_start);
    return count;
}

/* Whether each part begins where the one before it ends, and all together are the axis. */
static bool cover(const struct part *parts, int count, int64_t whole) {
    int64_t end = 0;
    for (int i = 0; i < count; i++) {
        if (parts[i].start != end)
            return false;
        end += parts[i].size;
    }
    return end == whole;
}

struct rewrite {
    struct zt_graph *g;
    const struct zt_op_table *table;
    struct zt_node like;
    int axis;
    struct zt_err *err;
};

/* out[i]: values of these sizes along the axis, one behind the other, cut from `from`. */
static bool add_split(const struct rewrite *r, int from, const int64_t *sizes, const int *out, int count) {
    const int in[2] = { from, zt_graph_add_ints(r->g, NULL, sizes, count) };
    const int node =
        zt_fuse_add(r->g, &r->like, &(struct zt_node_spec){ r->like.name, "Split", "", ZT_OPSET, in, 2, out, count });
    zt_node_set_int(r->g, node, "axis", r->axis);
    return zt_fuse_settle(r->g, r->table, node, r->err);
}

/* More parts than a Split makes are cut from groups of as many. */
static bool split_groups(const struct rewrite *r, const int64_t *sizes, const int *out, int count, int most) {
    const int groups = (count + most - 1) / most;
    int *group = ZT_NEW_N(r->g->arena, int, groups);
    int64_t *whole = ZT_NEW_N(r->g->arena, int64_t, groups);
    for (int i = 0; i < count; i++)
        whole[i / most] += sizes[i];
    for (int k = 0; k < groups; k++)
        group[k] = zt_graph_add_value(r->g, NULL, ZT_UNDEFINED, NULL);
    bool ok = add_split(r, r->like.in[0], whole, group, groups);
    for (int k = 0; ok && k < groups; k++) {
        const int first = k * most, parts = count - first < most ? count - first : most;
        ok = add_split(r, group[k], sizes + first, out + first, parts);
    }
    return ok;
}

static bool replace(const struct rewrite *r, const struct part *parts, int count) {
    const int most = zt_op_find(r->table, "", "Split", ZT_OPSET)->max_out;
    int *out = ZT_NEW_N(r->g->arena, int, count);
    int64_t *sizes = ZT_NEW_N(r->g->arena, int64_t, count);
    for (int i = 0; i < count; i++) {
        out[i] = r->g->nodes[parts[i].node]->out[0];
        sizes[i] = parts[i].size;
        r->g->nodes[parts[i].node]->dead = true;
    }
    return count <= most ? add_split(r, r->like.in[0], sizes, out, count) : split_groups(r, sizes, out, count, most);
}

/* At the Slice of the first part. */
static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct part first, *parts;
    int axis;
    if (!read_part(g, node, &axis, &first) || first.start != 0 ||
        zt_graph_users(g, g->nodes[node]->in[0], NULL) < LEAST_PARTS)
        return false;
    const int count = list_parts(g, node, axis, &parts);
    const int most = zt_op_find(table, "", "Split", ZT_OPSET)->max_out;
    const bool fits = count >= LEAST_PARTS && (int64_t)count <= (int64_t)most * most &&
                      cover(parts, count, zt_in(g, node, 0)->shape.dim[axis]);
    const struct rewrite r = { g, table, *g->nodes[node], axis, err };
    const bool done = fits && replace(&r, parts, count);
    free(parts);
    return done;
}

const struct zt_pattern zt_pattern_slices = { "slices", ZT_FUSE_FORWARD, apply };
