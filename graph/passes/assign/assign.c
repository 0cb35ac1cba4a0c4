#include "graph/passes/assign/assign.h"

#include "graph/passes/assign/settle_layouts.h"

#include <stdlib.h>
#include <string.h>

/* Nodes without a device kernel run on the host, with the fast host kernel if there is one. */
static enum zt_backend choose(const struct zt_graph *g, int node, enum zt_backend fast) {
    if (zt_op_takes(g, node, fast))
        return fast;
    return fast == ZT_CUDA && zt_op_takes(g, node, ZT_CPU) ? ZT_CPU : ZT_REF;
}

/* Reordered copies of values, so that each copy is made once: a list per value. */
struct copies {
    int *first; /* by value the graph had before: number of its newest copy, -1 */
    struct copy {
        int value, older;
    } * at;
    int count, room;
};

static int find_copy(const struct copies *copies, const struct zt_graph *g, int value, const struct zt_layout *layout) {
    for (int i = copies->first[value]; i >= 0; i = copies->at[i].older)
        if (zt_layout_same(g->values[copies->at[i].value]->layout, layout))
            return copies->at[i].value;
    return -1;
}

static void keep_copy(struct copies *copies, int value, int copy) {
    if (copies->count == copies->room) {
        copies->room = 2 * copies->room + 16;
        copies->at = zt_realloc(copies->at, (size_t)copies->room * sizeof *copies->at);
    }
    copies->at[copies->count] = (struct copy){ copy, copies->first[value] };
    copies->first[value] = copies->count++;
}

/* Moves a copy that was made for a backward node to the forward phase, where `reader` needs it. */
static void bring_forward(struct zt_graph *g, int copy, const struct zt_node *reader) {
    struct zt_node *maker = g->nodes[g->values[copy]->producer];
    if (maker->phase > reader->phase) {
        maker->phase = reader->phase;
        maker->place = reader->place;
    }
}

static void keep_prepared(struct zt_assignment *a, int node, const struct zt_prepared *p) {
    if (node >= a->room) {
        int room = 2 * node + 64;
        a->prepared = zt_realloc(a->prepared, (size_t)room * sizeof *a->prepared);
        memset(a->prepared + a->room, 0, (size_t)(room - a->room) * sizeof *a->prepared);
        a->room = room;
    }
    a->prepared[node] = *p;
}

/* Moves node `r` to the position of node `at`. -1: `r` reads an input and stays at the end. */
static void stand_at(struct zt_graph *g, int r, int at) {
    if (at < 0)
        return;
    g->nodes[r]->phase = g->nodes[at]->phase;
    g->nodes[r]->stage = g->nodes[at]->stage;
    g->nodes[r]->place = g->nodes[at]->place;
}

/* `from` in another layout, written by a reorder node at the position of `node` (-1: `from` is an input); -1: failed.
 */
static int reordered(struct zt_assignment *a, struct copies *copies, int node, int from,
                     const struct zt_layout *layout) {
    struct zt_graph *g = a->g;
    int to = find_copy(copies, g, from, layout);
    if (to >= 0) {
        if (node >= 0)
            bring_forward(g, to, g->nodes[node]);
        return to;
    }
    struct zt_shape shape = g->values[from]->shape;
    to = zt_graph_add_value(
        g, zt_arena_printf(g->arena, "%s as %s", g->values[from]->name, layout ? layout->name : "plain"),
        g->values[from]->dtype, &shape);
    g->values[to]->layout = layout;
    int r =
        zt_graph_add_node(g, &(struct zt_node_spec){ zt_arena_printf(g->arena, "reorder of %s", g->values[from]->name),
                                                     "Reorder", "ztrain", 1, &from, 1, &to, 1 });
    stand_at(g, r, node);
    g->nodes[r]->backend = a->fast;
    if (!zt_op_resolve(a->table, g, r, a->err))
        return -1;
    const struct zt_layout *layouts[2] = { g->values[from]->layout, layout };
    struct zt_prepared p;
    if (!zt_prepare_kernel(a, r, layouts, false, &p))
        return -1;
    keep_prepared(a, r, &p);
    keep_copy(copies, from, to);
    return to;
}

static bool all_plain(const struct zt_layout *const *layouts, int count) {
    int i = 0;
    while (i < count && !layouts[i])
        i++;
    return i == count;
}

static bool assign_node(struct zt_assignment *a, struct copies *copies, int node) {
    struct zt_graph *g = a->g;
    int in = g->nodes[node]->in_count, out = g->nodes[node]->out_count;
    const struct zt_layout **layouts = zt_calloc((size_t)(in + out), sizeof *layouts);
    for (int i = 0; i < in; i++)
        layouts[i] = zt_in(g, node, i) ? zt_in(g, node, i)->layout : NULL;
    const enum zt_backend backend = (enum zt_backend)g->nodes[node]->backend;
    const bool elsewhere = backend != a->fast; /* between a device and the host tensors travel in plain order */
    /* Reference kernels, and those without prepare, want plain layouts, as op.h says. */
    if (elsewhere || backend == ZT_REF || !g->nodes[node]->op->kernel[backend].prepare)
        memset(layouts, 0, (size_t)in * sizeof *layouts);
    struct zt_prepared p;
    bool ok = zt_prepare_kernel(a, node, layouts, false, &p);
    if (ok && elsewhere && !all_plain(layouts, in + out)) {
        if (p.release)
            p.release(p.state);
        memset(layouts, 0, (size_t)(in + out) * sizeof *layouts);
        g->nodes[node]->backend = ZT_REF;
        ok = zt_prepare_kernel(a, node, layouts, false, &p);
    }
    if (ok)
        keep_prepared(a, node, &p);
    for (int i = 0; ok && i < in; i++)
        if (zt_in(g, node, i) && !zt_layout_same(zt_in(g, node, i)->layout, layouts[i]))
            ok = (g->nodes[node]->in[i] = reordered(a, copies, node, g->nodes[node]->in[i], layouts[i])) >= 0;
    for (int i = 0; ok && i < out; i++)
        if (zt_out(g, node, i))
            zt_out(g, node, i)->layout = layouts[in + i];
    free(layouts);
    return ok;
}

/* An output value of a node, which identifies the node. */
static int some_output(const struct zt_node *node) {
    int i = 0;
    while (i + 1 < node->out_count && node->out[i] < 0)
        i++;
    return node->out[i];
}

/* Sorts the graph and the prepared kernels with it. */
static bool sort_with_prepared(struct zt_assignment *a) {
    struct zt_graph *g = a->g;
    int count = g->node_count;
    int *key = zt_malloc(((size_t)count + 1) * sizeof *key);
    for (int i = 0; i < count; i++)
        key[i] = some_output(g->nodes[i]);
    if (!zt_graph_sort(g, a->err)) {
        free(key);
        return false;
    }
    struct zt_prepared *sorted = zt_calloc((size_t)g->node_count + 1, sizeof *sorted);
    int *old = zt_malloc(((size_t)g->value_count + 1) * sizeof *old); /* an output value -> its node's old index */
    for (int i = 0; i < count; i++)
        old[key[i]] = i;
    for (int i = 0; i < g->node_count; i++)
        sorted[i] = a->prepared[old[some_output(g->nodes[i])]];
    free(old);
    free(key);
    free(a->prepared);
    a->prepared = sorted;
    return true;
}

static bool assign_all(struct zt_assignment *a) {
    struct zt_graph *g = a->g;
    struct copies copies = { .first = zt_malloc(((size_t)g->value_count + 1) * sizeof *copies.first) };
    memset(copies.first, -1, ((size_t)g->value_count + 1) * sizeof *copies.first);
    bool ok = true;
    for (int n = 0; ok && n < a->first_reorder; n++) {
        g->nodes[n]->backend = choose(g, n, a->fast);
        ok = assign_node(a, &copies, n);
    }
    for (int i = 0; ok && i < a->plain_count; i++) {
        const int value = a->plain[i];
        if (value >= 0 && g->values[value]->layout)
            ok = (a->plain[i] = reordered(a, &copies, g->values[value]->producer, value, NULL)) >= 0;
    }
    free(copies.at);
    free(copies.first);
    return ok;
}

bool zt_pass_assign(struct zt_graph *g, const struct zt_assign_options *options, int *plain, int plain_count,
                    struct zt_prepared **prepared, struct zt_err *err) {
    struct zt_assignment a = { .g = g,
                               .table = options->table,
                               .fast = options->fast,
                               .threads = options->threads,
                               .device = options->device,
                               .first_reorder = g->node_count,
                               .plain = plain,
                               .plain_count = plain_count,
                               .err = err };
    const bool ok = assign_all(&a) && zt_settle_layouts(&a) && sort_with_prepared(&a);
    if (!ok) {
        for (int i = 0; i < a.room; i++)
            if (a.prepared[i].release)
                a.prepared[i].release(a.prepared[i].state);
        free(a.prepared);
        a.prepared = NULL;
    }
    *prepared = a.prepared;
    return ok;
}

void zt_assign_release(const struct zt_graph *g, struct zt_prepared *prepared) {
    for (int i = 0; prepared && i < g->node_count; i++)
        if (prepared[i].release)
            prepared[i].release(prepared[i].state);
    free(prepared);
}
