/* attention_heads: an Attention of [batch, heads, rows, size] between Transposes of heads and rows
 * reads and writes the operator's other form, [batch, rows, heads * size]:
 *
 *     Transpose(Attention(Transpose(q), Transpose(k), Transpose(v)))         each with perm 0 2 1 3
 *         =>    Reshape(Attention(Reshape(q), Reshape(k), Reshape(v)))
 *
 * A Reshape is a view, so no elements are moved, in the gradient neither. Every number is computed as before, so the
 * bits stay. */
#include "ops/attention/attention.h"
#include "graph/passes/fusion/fuse.h"
#include "ops/movement/transpose.h"

#include <string.h>

/* Whether a node swaps heads and rows. */
static bool swaps_heads(const struct zt_graph *g, int node) {
    static const int wanted[4] = { 0, 2, 1, 3 };
    struct zt_err ignored = { 0 };
    int perm[ZT_MAX_RANK];
    return strcmp(g->nodes[node]->op_type, "Transpose") == 0 && zt_in(g, node, 0)->shape.rank == 4 &&
           zt_transpose_perm(g, node, 4, perm, &ignored) && memcmp(perm, wanted, sizeof wanted) == 0;
}

/* The Transpose that makes input `in`, or -1. */
static int swap_before(const struct zt_graph *g, int node, int in) {
    const int from = zt_fuse_producer(g, node, in, "Transpose", false);
    return from >= 0 && swaps_heads(g, from) ? from : -1;
}

/* The Transpose that alone reads y, or -1. */
static int swap_behind(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    const int y = n->out[ZT_Y];
    int reader;
    return y >= 0 && zt_graph_users(g, y, &reader) == 1 && !zt_graph_is_output(g, y) &&
                   g->nodes[reader]->phase == n->phase && g->nodes[reader]->stage == n->stage && swaps_heads(g, reader)
               ? reader
               : -1;
}

/* [batch, rows, heads, size] as [batch, rows, heads * size]; -1: failed. */
static int join_heads(struct zt_graph *g, const struct zt_op_table *table, int node, int value, struct zt_err *err) {
    const int64_t *d = g->values[value]->shape.dim;
    const struct zt_shape joined = { 3, { d[0], d[1], d[2] * d[3] } };
    return zt_fuse_reshape(g, table, node, value, &joined, err);
}

/* y [batch, rows, heads * size] as what the Transpose made. */
static bool split_heads(struct zt_graph *g, const struct zt_op_table *table, int swap, int y, struct zt_err *err) {
    const struct zt_node n = *g->nodes[swap];
    const struct zt_shape shape = zt_out(g, swap, 0)->shape;
    const int in[2] = { y, zt_graph_add_ints(g, NULL, shape.dim, shape.rank) };
    g->nodes[swap]->dead = true;
    return zt_fuse_settle(
        g, table, zt_fuse_add(g, &n, &(struct zt_node_spec){ n.name, "Reshape", "", ZT_OPSET, in, 2, n.out, 1 }), err);
}

static bool is_attention(const struct zt_node *n) {
    return n->op == &zt_op_attention || zt_attention_is_train(n->op);
}

static bool apply(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_node n = *g->nodes[node];
    int swap[ZT_V + 1];
    if (!is_attention(&n))
        return false;
    const int behind = swap_behind(g, node);
    bool fits = behind >= 0;
    for (int i = ZT_Q; i <= ZT_V && fits; i++)
        fits = (swap[i] = swap_before(g, node, i)) >= 0 && zt_in(g, node, i)->shape.dim[1] > 0;
    if (!fits)
        return false;
    int *in = zt_arena_copy(g->arena, n.in, (size_t)n.in_count * sizeof *in);
    int *out = zt_arena_copy(g->arena, n.out, (size_t)n.out_count * sizeof *out);
    for (int i = ZT_Q; i <= ZT_V; i++)
        if ((in[i] = join_heads(g, table, node, g->nodes[swap[i]]->in[0], err)) < 0)
            return false;
    out[ZT_Y] = zt_graph_add_value(g, NULL, ZT_UNDEFINED, NULL);
    const int made = zt_graph_copy_node(g, node, node, in, out);
    zt_node_set_int(g, made, "q_num_heads", zt_in(g, node, ZT_Q)->shape.dim[1]);
    zt_node_set_int(g, made, "kv_num_heads", zt_in(g, node, ZT_K)->shape.dim[1]);
    g->nodes[node]->dead = true;
    for (int i = ZT_Q; i <= ZT_V; i++)
        zt_fuse_drop(g, n.in[i]);
    return zt_op_infer(g, made, err) && split_heads(g, table, behind, out[ZT_Y], err);
}

const struct zt_pattern zt_pattern_attention_heads = { "attention_heads", ZT_FUSE_FORWARD, apply };
