/* The nodes that read a weight: directly, behind nodes that only transpose, cast or copy it, and in the graphs that
 * nodes hold.
 *
 *     main      If(c, W)                     then { y = MatMul(x, W) }          W is captured: input 1 of the If
 *     main      Loop(n, c, v, W)             body { u = f(v, W) }               f { y = Gemm(a, b) }
 *     main      ztrain.LoopRun(v, W)         body { u = MatMul(v, W) }          W is shared by all iterations
 *
 * Rows of nodes in a body are looked up: before inference, which expands If, Loop and Scan, they are not resolved. */
#include "graph/passes/low_rank/low_rank.h"

#include "base/vec.h"
#include "graph/passes/lower_count.h"

#include <string.h>

/* A value that was visited. Functions may call others many times: each value of a graph is visited once. */
struct visited {
    const struct zt_graph *g;
    int value;
    bool transposed;
};

struct walk {
    struct zt_graph *g; /* the graph that holds the weight */
    bool windows;
    int depth;
    ZT_VEC(struct visited) visited;
    ZT_VEC(struct zt_weight_reader) readers;
    ZT_VEC(struct zt_weight_door) doors;
    const char *other;
};

enum { MOST_DEPTH = 200 }; /* nodes on the way from a weight to a reader */

/* A graph in which the weight is looked for. */
struct room {
    const struct zt_graph *g;
    const char *prefix;       /* names of the nodes that hold it, each with a slash */
    const struct room *outer; /* where its holder is; NULL: the graph that holds the weight */
    const struct zt_node *of; /* the holder */
};

static const struct zt_op *row_of(const struct walk *w, const struct zt_node *n) {
    return n->op ? n->op : w->g->table ? zt_op_of(w->g->table, n) : NULL;
}

/* Whether the node hands on the matrix in input 0; *transposed is inverted where it hands on the transpose. */
static bool hands_on(const struct zt_op *op, const struct zt_node *n, bool *transposed) {
    const struct zt_low_rank_row *row = op ? op->low_rank : NULL;
    if (row && row->transposes && row->transposes(n)) {
        *transposed = !*transposed;
        return true;
    }
    return op && (op->flags & ZT_OP_CAST || zt_op_copies(op)) && n->in_count == 1;
}

static bool takes(const struct zt_op *op, int in, bool windows) {
    const struct zt_low_rank_row *row = op ? op->low_rank : NULL;
    return row && row->emit && row->windows == windows && in < 32 && row->weight_in >> in & 1;
}

/* Two nodes that read each other's weights would each need the other's path: one input of a node is the weight. */
static bool is_only_weight(const struct zt_node *n, int value) {
    int uses = 0;
    for (int i = 0; i < n->in_count; i++)
        uses += n->in[i] == value;
    return uses == 1;
}

/* In the body of a function: an attribute has the value that the call gives. */
static bool has_references(const struct zt_node *n) {
    for (int i = 0; i < n->attr_count; i++)
        if (n->attr[i].ref)
            return true;
    return false;
}

static void refuse(struct walk *w, const struct room *at, const struct zt_node *n, const char *how) {
    if (!w->other)
        w->other = zt_arena_printf(w->g->arena, "%s %s%s (%s)", how, at->prefix, n->name, n->op_type);
}

static void visit(struct walk *w, const struct room *at, int value, bool transposed);

/* The value is `inside` in a graph that node n holds. */
static void enter(struct walk *w, const struct room *at, const struct zt_node *n, const struct zt_weight_seen *inside,
                  const struct zt_graph *body) {
    const struct room room = { body, zt_arena_printf(w->g->arena, "%s%s/", at->prefix, n->name), at, n };
    visit(w, &room, inside->value, inside->transposed);
}

/* The graph hands out the value as output k. A graph without inputs is a branch of an If: it runs once. */
static void leave(struct walk *w, const struct room *at, int k, bool transposed) {
    if (at->g->input_count)
        refuse(w, at->outer, at->of, "is handed out by the body of");
    else if (k < at->of->out_count && at->of->out[k] >= 0)
        visit(w, at->outer, at->of->out[k], transposed);
}

/* Input `in` of a node whose graphs capture values: the captured values of all its graphs are its last inputs. */
static void visit_captured(struct walk *w, const struct room *at, const struct zt_node *n, int in, bool transposed) {
    int first = n->in_count - n->captured;
    if (in < first) {
        refuse(w, at, n, "is carried or cut into slices, which are other tensors in each iteration, by");
        return;
    }
    for (int i = 0; i < n->attr_count; i++) {
        const struct zt_graph *body = n->attr[i].graph;
        if (body && in >= first && in < first + body->captured_count)
            enter(w, at, n, &(struct zt_weight_seen){ body->captured[in - first], transposed, w->windows }, body);
        first += body ? body->captured_count : 0;
    }
}

/* Input `in` of a node that runs one graph again and again (struct zt_low_rank_body). */
static void visit_door(struct walk *w, const struct room *at, const struct zt_node *n, int in, bool transposed) {
    const struct zt_low_rank_body *inner = row_of(w, n)->low_rank->body;
    const struct zt_graph *body = zt_node_attr(n, inner->attr)->graph;
    if (in < inner->first_shared(n)) {
        refuse(w, at, n, "is carried or cut into slices, which are other tensors in each iteration, by");
        return;
    }
    const int before = w->readers.count;
    enter(w, at, n, &(struct zt_weight_seen){ body->inputs[in + inner->before], transposed, w->windows }, body);
    if (at->g == w->g && w->readers.count > before)
        zt_vec_push(&w->doors, (struct zt_weight_door){ n->index, in, transposed });
}

/* A function that a body calls. */
static const struct zt_function *called(const struct walk *w, const struct room *at, const struct zt_node *n) {
    return at->outer && w->g->table ? zt_lower_called(w->g->functions, w->g->table, n) : NULL;
}

static void visit_call(struct walk *w, const struct room *at, const struct zt_node *n, int in, bool transposed) {
    const struct zt_graph *body = called(w, at, n)->body;
    if (in < body->input_count)
        enter(w, at, n, &(struct zt_weight_seen){ body->inputs[in], transposed, w->windows }, body);
}

static void visit_input(struct walk *w, const struct room *at, int node, int in, bool transposed) {
    const struct zt_node *n = at->g->nodes[node];
    const struct zt_op *op = row_of(w, n);
    bool behind = transposed;
    if (called(w, at, n))
        visit_call(w, at, n, in, transposed);
    else if (op && op->expand && !op->infer)
        visit_captured(w, at, n, in, transposed);
    else if (op && op->low_rank && op->low_rank->body)
        visit_door(w, at, n, in, transposed);
    else if (has_references(n))
        refuse(w, at, n, "is read, with attributes that a function call in a body gives, by");
    else if (hands_on(op, n, &behind))
        visit(w, at, n->out[0], behind);
    else if (takes(op, in, w->windows) && is_only_weight(n, n->in[in]) && !(w->windows && transposed))
        zt_vec_push(&w->readers,
                    ((struct zt_weight_reader){ n, op->low_rank, node, in, transposed, at->g != w->g,
                                                zt_arena_printf(w->g->arena, "%s%s", at->prefix, n->name) }));
    else
        refuse(w, at, n, "is read by");
}

static bool is_new(struct walk *w, const struct zt_graph *g, int value, bool transposed) {
    for (int i = 0; i < w->visited.count; i++)
        if (w->visited.at[i].g == g && w->visited.at[i].value == value && w->visited.at[i].transposed == transposed)
            return false;
    zt_vec_push(&w->visited, ((struct visited){ g, value, transposed }));
    return true;
}

static void visit(struct walk *w, const struct room *at, int value, bool transposed) {
    if (!is_new(w, at->g, value, transposed))
        return;
    const bool deep = ++w->depth > MOST_DEPTH;
    for (int n = 0; n < at->g->node_count; n++)
        for (int i = 0; !at->g->nodes[n]->dead && i < at->g->nodes[n]->in_count; i++)
            if (at->g->nodes[n]->in[i] == value && deep)
                refuse(w, at, at->g->nodes[n], "is read behind too many other nodes by");
            else if (at->g->nodes[n]->in[i] == value)
                visit_input(w, at, n, i, transposed);
    for (int k = 0; at->outer && k < at->g->output_count; k++)
        if (at->g->outputs[k] == value && !deep)
            leave(w, at, k, transposed);
    w->depth--;
}

/* The axis of the stored matrix that the reader sums over. */
static int summed_axis(const struct zt_weight_reader *r) {
    const int axis = r->row->summed ? r->row->summed(r->of, r->in) : 1;
    return r->transposed ? 1 - axis : axis;
}

void zt_weight_readers_of(struct zt_graph *g, const struct zt_weight_seen *seen, struct zt_weight_readers *to) {
    struct walk w = { .g = g, .windows = seen->windows };
    visit(&w, &(struct room){ .g = g, .prefix = "" }, seen->value, seen->transposed);
    *to = (struct zt_weight_readers){ .count = w.readers.count, .door_count = w.doors.count, .other = w.other };
    to->at = zt_vec_copy(g->arena, &w.readers);
    to->doors = zt_vec_copy(g->arena, &w.doors);
    to->transposed = to->count && summed_axis(&to->at[0]) == 0;
    zt_vec_finish(&w.readers);
    zt_vec_finish(&w.doors);
    zt_vec_finish(&w.visited);
}

void zt_weight_readers_find(struct zt_graph *g, int weight, struct zt_weight_readers *to) {
    const int rank = g->values[weight]->shape.rank;
    *to = (struct zt_weight_readers){ 0 };
    if (rank >= 2)
        zt_weight_readers_of(g, &(struct zt_weight_seen){ .value = weight, .windows = rank > 2 }, to);
}
