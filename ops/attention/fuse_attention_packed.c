/* attention_packed: an Attention whose queries, keys and values are parts of one tensor reads this tensor:
 *
 *     q, k, v = Split<axis=-1>(x)    Attention(q, k, v)        =>    PackedAttention(x)
 *
 * A Split or Slices divide all of x into the three parts, in this order, and only Attention reads the parts. Views may
 * follow if a row of the part is a row of Attention's input. The gradient of x is written as one tensor, too. The
 * numbers are the same, so the bits stay. */
#include "ops/attention/attention.h"
#include "graph/passes/fusion/fuse.h"
#include "ops/movement/slice.h"

#include <string.h>

/* Columns [first, first + count) of a value. */
struct part {
    int of;
    int64_t first, count;
};

/* A part that a Split along the last axis made. */
static bool part_of_split(const struct zt_graph *g, int node, int value, struct part *to) {
    const struct zt_node *n = g->nodes[node];
    const int last = zt_in(g, node, 0)->shape.rank - 1;
    const int64_t axis = zt_attr_int(n, "axis", 0);
    *to = (struct part){ .of = n->in[0] };
    for (int i = 0; n->out[i] != value; i++)
        to->first += zt_out(g, node, i)->shape.dim[last];
    return axis == last || axis == -1;
}

/* The same by a Slice that takes all of the other axes. */
static bool part_of_slice(const struct zt_graph *g, int node, struct part *to) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    struct zt_err ignored = { 0 };
    struct zt_slice_bounds cut;
    bool fits = x->rank > 0 && zt_slice_read(g, node, &cut, &ignored) && cut.step[x->rank - 1] == 1;
    for (int k = 0; fits && k < x->rank - 1; k++)
        fits = cut.shape.dim[k] == x->dim[k] && cut.step[k] == 1;
    *to = (struct part){ .of = g->nodes[node]->in[0], .first = fits ? cut.start[x->rank - 1] : 0 };
    return fits;
}

/* The part that input `in` is, behind views; false where there is none or another node reads it. */
static bool find_part(const struct zt_graph *g, int node, int in, struct part *to) {
    const struct zt_shape *rows = &zt_in(g, node, in)->shape;
    int value = g->nodes[node]->in[in], from = zt_fuse_producer(g, node, in, NULL, true);
    while (from >= 0 && zt_op_is_view(g->nodes[from])) {
        value = g->nodes[from]->in[0];
        from = zt_fuse_producer(g, from, 0, NULL, true);
    }
    const struct zt_shape *part = &g->values[value]->shape;
    const int64_t columns = rows->dim[rows->rank - 1];
    if (from < 0 || part->rank < 1 || part->dim[part->rank - 1] != columns || g->nodes[from]->domain[0])
        return false;
    const char *op_type = g->nodes[from]->op_type;
    bool found = (strcmp(op_type, "Split") == 0 && part_of_split(g, from, value, to)) ||
                 (strcmp(op_type, "Slice") == 0 && part_of_slice(g, from, to));
    to->count = columns;
    return found;
}

/* The value that consists of queries, keys and values in this order; -1: none. */
static int find_whole(const struct zt_graph *g, int node, const struct zt_attention *a) {
    struct part part[ZT_V + 1];
    int64_t at = 0;
    for (int i = ZT_Q; i <= ZT_V; i++) {
        if (!find_part(g, node, i, &part[i]) || part[i].of != part[ZT_Q].of || part[i].first != at)
            return -1;
        at += part[i].count;
    }
    const struct zt_shape *whole = &g->values[part[ZT_Q].of]->shape;
    return whole->dim[whole->rank - 1] == at && a->size == a->v_size ? part[ZT_Q].of : -1;
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_node n = *g->nodes[node];
    const bool train = zt_attention_is_train(n.op);
    struct zt_attention a;
    struct zt_err ignored = { 0 };
    int in[ZT_ATTENTION_INS];
    if (!(train || n.op == &zt_op_attention) || !zt_in(g, node, ZT_K) || zt_in(g, node, ZT_Q)->shape.rank != 3 ||
        !zt_attention_read(g, node, &a, &ignored))
        return false;
    const struct zt_shape rows = { 3, { a.batch, a.queries, (a.heads + 2 * a.kv_heads) * a.size } };
    const int whole = find_whole(g, node, &a), x = whole < 0 ? -1 : zt_fuse_reshape(g, table, node, whole, &rows, err);
    if (x < 0)
        return false;
    for (int i = 0; i < n.in_count; i++)
        in[i] = i == ZT_Q ? x : i <= ZT_V ? -1 : n.in[i];
    bool replaced = zt_fuse_replace(g, table, node,
                                    &(struct zt_fused_node){ train ? "PackedAttentionTrain" : "PackedAttention", in,
                                                             n.in_count > ZT_V + 1 ? n.in_count : 1, NULL, 0, &n },
                                    err);
    for (int i = ZT_Q; i <= ZT_V; i++)
        zt_fuse_drop(g, n.in[i]);
    return replaced;
}

const struct zt_pattern zt_pattern_attention_packed = { "attention_packed", ZT_FUSE_FORWARD, apply };
