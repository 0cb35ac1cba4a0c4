/* The nodes that read a weight: directly, or behind nodes that only transpose, cast or copy it. */
#include "graph/passes/low_rank/low_rank.h"

#include "base/vec.h"

#include <string.h>

struct walk {
    struct zt_graph *g;
    ZT_VEC(struct zt_weight_reader) readers;
    int other;
};

/* Whether the node hands on the matrix in input 0; *transposed is inverted where it hands on the transpose. */
static bool hands_on(const struct zt_node *n, bool *transposed) {
    const struct zt_low_rank_row *row = n->op ? n->op->low_rank : NULL;
    if (row && row->transposes && row->transposes(n)) {
        *transposed = !*transposed;
        return true;
    }
    return n->op && (n->op->flags & ZT_OP_CAST || zt_op_copies(n->op)) && n->in_count == 1;
}

static bool takes(const struct zt_node *n, int in, bool windows) {
    const struct zt_low_rank_row *row = n->op ? n->op->low_rank : NULL;
    return row && row->emit && row->windows == windows && in < 32 && row->weight_in >> in & 1;
}

/* Two nodes that read each other's weights would each need the other's path: one input of a node is the weight. */
static bool is_only_weight(const struct zt_node *n, int value) {
    int uses = 0;
    for (int i = 0; i < n->in_count; i++)
        uses += n->in[i] == value;
    return uses == 1;
}

static void visit(struct walk *w, int value, bool transposed, bool windows) {
    for (int n = 0; n < w->g->node_count; n++) {
        const struct zt_node *node = w->g->nodes[n];
        for (int i = 0; !node->dead && i < node->in_count; i++) {
            bool behind = transposed;
            if (node->in[i] != value)
                continue;
            if (hands_on(node, &behind))
                visit(w, node->out[0], behind, windows);
            else if (takes(node, i, windows) && is_only_weight(node, value) && !(windows && transposed))
                zt_vec_push(&w->readers, (struct zt_weight_reader){ n, i, transposed });
            else
                w->other = n;
        }
    }
}

/* The axis of the stored matrix that the reader sums over. */
static int summed_axis(const struct zt_graph *g, const struct zt_weight_reader *r) {
    const struct zt_node *n = g->nodes[r->node];
    const int axis = n->op->low_rank->summed ? n->op->low_rank->summed(n, r->in) : 1;
    return r->transposed ? 1 - axis : axis;
}

void zt_weight_readers_find(struct zt_graph *g, int weight, struct zt_weight_readers *to) {
    struct walk w = { .g = g, .other = -1 };
    const int rank = g->values[weight]->shape.rank;
    if (rank >= 2)
        visit(&w, weight, false, rank > 2);
    *to = (struct zt_weight_readers){ .count = w.readers.count, .other = w.other };
    if (to->count) {
        to->at = zt_arena_copy(g->arena, w.readers.at, (size_t)to->count * sizeof *to->at);
        to->transposed = summed_axis(g, &to->at[0]) == 0;
    }
    zt_vec_finish(&w.readers);
}
