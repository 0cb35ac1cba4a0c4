/* Transposes that exporters put around operators of another layout (NHWC) move towards the outputs until they meet.
 *
 *     Op(T(a), T(b), vector)  ->  T(Op(a, b, vector laid along its axis of a))        rows with ZT_OP_POINTWISE
 *     Concat(T(a), T(b))      ->  T(Concat(a, b)) along the axis that it was
 *     T(U(a))                 ->  one Transpose, or a itself
 *     Reduce(T(a))            ->  T(Reduce(a)) along the axes that they were, without a Transpose where the others are
 *     Gather(T(a), index)         in order: the last step of a recurrent node, or the mean of all
 *
 * Only a Transpose whose result nothing else reads moves, so that none is added. Every element is computed from the
 * same numbers as before: but for the order in which a reduction adds them, the bits stay. Nodes are visited in order,
 * so that what one visit moved, the next can move on. */
#include "graph/passes/fusion/fuse.h"
#include "ops/movement/transpose.h"
#include "ops/reduce/reduce.h"

#include <string.h>

/* The Transpose that makes input `in`, where nothing but `node` reads it; -1 without. */
static int own_transpose(const struct zt_graph *g, int node, int in) {
    const int from = zt_fuse_producer(g, node, in, "Transpose", false);
    return from >= 0 && zt_fuse_read_only_by(g, g->nodes[node]->in[in], &node, 1) ? from : -1;
}

static bool read_perm(const struct zt_graph *g, int node, int perm[ZT_MAX_RANK]) {
    struct zt_err ignored = { 0 };
    return zt_transpose_perm(g, node, zt_in(g, node, 0)->shape.rank, perm, &ignored);
}

/* ---- new nodes ---- */

struct rewrite {
    struct zt_graph *g;
    const struct zt_op_table *table;
    struct zt_err *err;
};

/* A node of an ONNX operator in the place of `like`, not settled. */
static int add(const struct rewrite *r, const struct zt_node *like, const char *op_type, const int *in, int in_count,
               int out) {
    return zt_fuse_add(r->g, like, &(struct zt_node_spec){ like->name, op_type, "", ZT_OPSET, in, in_count, &out, 1 });
}

static bool settle(const struct rewrite *r, int node) {
    return zt_fuse_settle(r->g, r->table, node, r->err);
}

static bool add_transpose(const struct rewrite *r, const struct zt_node *like, int from, int to, const int *perm,
                          int rank) {
    int64_t axes[ZT_MAX_RANK];
    for (int k = 0; k < rank; k++)
        axes[k] = perm[k];
    int node = add(r, like, "Transpose", &from, 1, to);
    zt_node_set_ints(r->g, node, "perm", axes, rank);
    return settle(r, node);
}

/* ---- two Transposes ---- */

/* Whoever reads `from` reads `to` instead. */
static void replace_reads(struct zt_graph *g, int from, int to, struct zt_err *err) {
    for (int node; zt_graph_users(g, from, &node) > 0;)
        for (int i = 0; i < g->nodes[node]->in_count; i++)
            if (g->nodes[node]->in[i] == from)
                g->nodes[node]->in[i] = to;
    zt_graph_index(g, err);
}

static bool merge(const struct rewrite *r, int node) {
    struct zt_graph *g = r->g;
    int inner[ZT_MAX_RANK], outer[ZT_MAX_RANK], both[ZT_MAX_RANK],
        from = zt_fuse_producer(g, node, 0, "Transpose", false);
    const struct zt_node n = *g->nodes[node];
    if (from < 0 || !read_perm(g, from, inner) || !read_perm(g, node, outer))
        return false;
    int x = g->nodes[from]->in[0], y = n.out[0], rank = g->values[x]->shape.rank;
    bool same = true;
    for (int k = 0; k < rank; k++) {
        both[k] = inner[outer[k]];
        same &= both[k] == k;
    }
    if (own_transpose(g, node, 0) >= 0)
        g->nodes[from]->dead = true;
    g->nodes[node]->dead = true;
    if (same && !zt_graph_is_output(g, y))
        replace_reads(g, y, x, r->err);
    else if (same)
        return settle(r, add(r, &n, "Identity", &x, 1, y));
    else
        return add_transpose(r, &n, x, y, both, rank);
    return true;
}

/* ---- through other nodes ---- */

/* The form of an input when the Transpose moves behind the node. */
enum kind { NO, TRANSPOSED, SCALAR, VECTOR };

static enum kind kind_of(const struct zt_graph *g, int node, int in, const int *perm, int rank) {
    int from = own_transpose(g, node, in), other[ZT_MAX_RANK];
    const struct zt_value *v = zt_in(g, node, in);
    if (from >= 0 && v->shape.rank == rank && read_perm(g, from, other) &&
        memcmp(other, perm, (size_t)rank * sizeof *perm) == 0)
        return TRANSPOSED;
    int wide = 0;
    for (int k = 0; k < v->shape.rank; k++)
        wide += v->shape.dim[k] != 1;
    return v->shape.rank > rank ? NO : wide == 0 ? SCALAR : wide == 1 ? VECTOR : NO;
}

/* A vector along axis k of the Transpose's result lies along axis perm[k] of its input. */
static int lay_along(const struct rewrite *r, const struct zt_node *like, int vector, const int *perm, int rank) {
    struct zt_graph *g = r->g;
    const struct zt_shape from = g->values[vector]->shape;
    int64_t dims[ZT_MAX_RANK];
    for (int k = 0; k < rank; k++)
        dims[perm[k]] = k < rank - from.rank ? 1 : from.dim[k - (rank - from.rank)];
    int in[2] = { vector, zt_graph_add_ints(g, NULL, dims, rank) };
    int out = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    return settle(r, add(r, like, "Reshape", in, 2, out)) ? out : -1;
}

/* Puts the node in front of the Transposes that make its inputs; `concat`: its axis moves with it. */
static bool sink(const struct rewrite *r, int node, bool concat) {
    struct zt_graph *g = r->g;
    const struct zt_node n = *g->nodes[node];
    int perm[ZT_MAX_RANK], first = 0, rank = g->values[n.out[0]]->shape.rank, axis = 0;
    enum kind kind[64];
    while (first < n.in_count && (n.in[first] < 0 || own_transpose(g, node, first) < 0))
        first++;
    if (first == n.in_count || n.in_count > 64 || !read_perm(g, g->values[n.in[first]]->producer, perm))
        return false;
    for (int i = 0; i < n.in_count; i++) {
        kind[i] = n.in[i] < 0 ? SCALAR : kind_of(g, node, i, perm, rank);
        if (kind[i] == NO || (concat && kind[i] != TRANSPOSED))
            return false;
    }
    if (concat && !zt_axis(g, node, zt_attr_int(&n, "axis", 0), rank, &axis, r->err))
        return false;
    int *in = zt_arena_copy(g->arena, n.in, (size_t)n.in_count * sizeof *in);
    for (int i = 0; i < n.in_count; i++) {
        if (kind[i] == TRANSPOSED)
            in[i] = g->nodes[g->values[n.in[i]]->producer]->in[0];
        if (kind[i] == VECTOR && (in[i] = lay_along(r, &n, n.in[i], perm, rank)) < 0)
            return false;
    }
    for (int i = 0; i < n.in_count; i++)
        if (kind[i] == TRANSPOSED)
            g->nodes[g->values[n.in[i]]->producer]->dead = true;
    int y = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL), moved = zt_graph_copy_node(g, node, node, in, &y);
    if (concat)
        zt_node_set_attr(g, moved, &(struct zt_attr){ .name = "axis", .type = ZT_ATTR_INT, .i = perm[axis] });
    g->nodes[node]->dead = true;
    return zt_op_infer(g, moved, r->err) && add_transpose(r, &n, y, n.out[0], perm, rank);
}

/* The axes that the node takes out of its input or, with keepdims, leaves as 1. */
struct taken {
    bool at[ZT_MAX_RANK], stay;
};

static bool is_gather(const struct zt_node *n) {
    return strcmp(n->op_type, "Gather") == 0;
}

static bool is_reduction(const struct zt_node *n) {
    return strncmp(n->op_type, "Reduce", 6) == 0;
}

static bool taken_by(const struct zt_graph *g, int node, int rank, struct taken *to) {
    const struct zt_node *n = g->nodes[node];
    struct zt_err ignored = { 0 };
    int axis;
    *to = (struct taken){ .stay = !is_gather(n) && zt_attr_int(n, "keepdims", 1) };
    if (!is_gather(n))
        return zt_reduce_axes(g, node, to->at, &ignored);
    if (zt_in(g, node, 1)->shape.rank > 0 || !zt_axis(g, node, zt_attr_int(n, "axis", 0), rank, &axis, &ignored))
        return false;
    to->at[axis] = true;
    return true;
}

/* The axes of the Transpose behind the node, by those of the one in front of it; returns their number. */
static int rest_of(const int *perm, int rank, const struct taken *t, int rest[ZT_MAX_RANK]) {
    int place[ZT_MAX_RANK], count = 0, at = 0;
    bool gone[ZT_MAX_RANK];
    for (int k = 0; k < rank; k++)
        gone[perm[k]] = t->at[k] && !t->stay;
    for (int k = 0; k < rank; k++)
        place[k] = gone[k] ? -1 : at++;
    for (int k = 0; k < rank; k++)
        if (!gone[perm[k]])
            rest[count++] = place[perm[k]];
    return count;
}

/* Puts a reduction, or a Gather of one index, in front of the Transpose that makes its input. */
static bool take_before(const struct rewrite *r, int node) {
    struct zt_graph *g = r->g;
    const struct zt_node n = *g->nodes[node];
    const int from = own_transpose(g, node, 0), rank = zt_in(g, node, 0)->shape.rank;
    int perm[ZT_MAX_RANK], rest[ZT_MAX_RANK], count = 0;
    int64_t axes[ZT_MAX_RANK];
    struct taken t;
    if (from < 0 || !read_perm(g, from, perm) || !taken_by(g, node, rank, &t))
        return false;
    for (int k = 0; k < rank; k++)
        if (t.at[k])
            axes[count++] = perm[k];
    const int left = rest_of(perm, rank, &t, rest);
    bool in_order = true;
    for (int k = 0; k < left; k++)
        in_order &= rest[k] == k;
    int *in = zt_arena_copy(g->arena, n.in, (size_t)n.in_count * sizeof *in);
    in[0] = g->nodes[from]->in[0];
    if (!is_gather(&n) && n.in_count > 1 && n.in[1] >= 0)
        in[1] = zt_graph_add_ints(g, NULL, axes, count);
    g->nodes[from]->dead = true;
    int y = in_order ? n.out[0] : zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    int moved = zt_graph_copy_node(g, node, node, in, &y);
    if (is_gather(&n))
        zt_node_set_int(g, moved, "axis", axes[0]);
    else if (zt_node_attr(&n, "axes"))
        zt_node_set_ints(g, moved, "axes", axes, count);
    g->nodes[node]->dead = true;
    return zt_op_infer(g, moved, r->err) && (in_order || add_transpose(r, &n, y, n.out[0], rest, left));
}

static bool is_transpose(const struct zt_node *n) {
    return strcmp(n->op_type, "Transpose") == 0;
}

/* Joins the Transposes that read what `node` makes with it. */
static bool merge_readers(const struct rewrite *r, int node) {
    const struct zt_graph *g = r->g;
    bool any = false;
    for (int n = 0, count = g->node_count; n < count && !g->nodes[node]->dead; n++)
        if (!g->nodes[n]->dead && is_transpose(g->nodes[n]) && g->nodes[n]->in[0] == g->nodes[node]->out[0])
            any |= merge(r, n);
    return any;
}

/* At a Transpose: it is joined with those behind it, and moved past the node that reads it, as long as either goes. */
static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct rewrite r = { g, table, err };
    bool any = false;
    for (int reader; !err->count && is_transpose(g->nodes[node]); node = g->node_count - 1) {
        any |= merge_readers(&r, node);
        if (g->nodes[node]->dead || zt_graph_users(g, g->nodes[node]->out[0], &reader) == 0)
            break;
        const struct zt_node *n = g->nodes[reader];
        const bool concat = strcmp(n->op_type, "Concat") == 0, take = is_gather(n) || is_reduction(n);
        if (n->out_count != 1 || n->out[0] < 0 || !(concat || take || n->op->flags & ZT_OP_POINTWISE) ||
            !(take ? take_before(&r, reader) : sink(&r, reader, concat)))
            break;
        any = true; /* what stands behind the node now is the last node there is */
    }
    return any;
}

const struct zt_pattern zt_pattern_transpose = { "transpose", ZT_FUSE_FORWARD, apply };
