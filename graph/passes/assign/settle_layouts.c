/* A second look at the layouts, once all nodes have theirs (assign.c): what a node writes is wanted otherwise by
 * readers that were not known yet when it was prepared.
 *
 *     Cast -> plain -> Reorder -> last -> Conv        Cast writes channels last itself
 *     Pool -> last -> Flatten (a copy)                Pool writes plain, and Flatten is a view
 *     Reshape -> plain -> Reorder -> last -> PoolGrad     PoolGrad reads plain itself
 *
 * Only where the kernel said so (free_in, free_out of struct zt_prepare), and where nobody else loses by it. */
#include "graph/passes/assign/settle_layouts.h"

#include <stdlib.h>

static bool is_reorder(const struct zt_assignment *a, int node) {
    return node >= a->first_reorder;
}

static bool is_free(unsigned mask, int i) {
    return i < 32 && mask >> i & 1;
}

static bool is_read_outside(const struct zt_assignment *a, int value) {
    int i = 0;
    while (i < a->plain_count && a->plain[i] != value)
        i++;
    return i < a->plain_count;
}

static bool reads(const struct zt_assignment *a, int node, int value) {
    const struct zt_node *n = a->g->nodes[node];
    int i = 0;
    while (i < n->in_count && n->in[i] != value)
        i++;
    return !n->dead && i < n->in_count;
}

/* By node; free with free(). */
static bool *readers_of(const struct zt_assignment *a, int value) {
    bool *reader = zt_calloc((size_t)a->g->node_count, sizeof *reader);
    for (int n = 0; n < a->g->node_count; n++)
        reader[n] = reads(a, n, value);
    return reader;
}

/* Whether the node's kernel can read `value` in the other layout, in all its inputs. */
static bool reads_either(const struct zt_assignment *a, int node, int value) {
    const struct zt_node *n = a->g->nodes[node];
    bool either = true;
    for (int i = 0; i < n->in_count; i++)
        either &= n->in[i] != value || is_free(a->prepared[node].free_in, i);
    return either;
}

/* A view that copies, and that becomes a view again when its input is plain. */
static bool is_copying_view(const struct zt_assignment *a, int node) {
    const struct zt_node *n = a->g->nodes[node];
    return n->op->flags & ZT_OP_VIEW && zt_in(a->g, node, 0)->layout && !zt_out(a->g, node, 0)->layout &&
           is_free(a->prepared[node].free_in, 0);
}

/* Prepares the node's kernel again, for the tensors' current layouts. */
static bool prepare_anew(struct zt_assignment *a, int node) {
    const struct zt_node *n = a->g->nodes[node];
    const struct zt_layout **layouts = zt_calloc((size_t)(n->in_count + n->out_count), sizeof *layouts);
    struct zt_prepared p;
    for (int i = 0; i < n->in_count; i++)
        layouts[i] = zt_in(a->g, node, i) ? zt_in(a->g, node, i)->layout : NULL;
    for (int i = 0; i < n->out_count; i++)
        layouts[n->in_count + i] = zt_out(a->g, node, i) ? zt_out(a->g, node, i)->layout : NULL;
    const bool ok = zt_prepare_kernel(a, node, layouts, true, &p);
    free(layouts);
    if (!ok)
        return false;
    if (a->prepared[node].release)
        a->prepared[node].release(a->prepared[node].state);
    a->prepared[node] = p;
    return true;
}

/* Removes reorder `node`: its readers read its input instead. */
static void take_out(struct zt_assignment *a, int node) {
    struct zt_graph *g = a->g;
    const int from = g->nodes[node]->in[0], to = g->nodes[node]->out[0];
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] == to)
                g->nodes[n]->in[i] = from;
    for (int i = 0; i < a->plain_count; i++)
        if (a->plain[i] == to)
            a->plain[i] = from;
    g->nodes[node]->dead = true;
    if (a->prepared[node].release)
        a->prepared[node].release(a->prepared[node].state);
    a->prepared[node] = (struct zt_prepared){ 0 };
}

/* ---- producers that write the other layout ---- */

static bool writes_either(const struct zt_assignment *a, int value) {
    const struct zt_value *v = a->g->values[value];
    if (v->origin != ZT_FROM_NODE || v->producer < 0)
        return false;
    const struct zt_node *n = a->g->nodes[v->producer];
    int i = 0;
    while (i < n->out_count && n->out[i] != value)
        i++;
    return !n->dead && i < n->out_count && is_free(a->prepared[v->producer].free_out, i);
}

/* Whether every reader of `value` wants this layout or accepts it. */
static bool all_take(const struct zt_assignment *a, int value, const struct zt_layout *layout) {
    const struct zt_graph *g = a->g;
    bool take = !is_read_outside(a, value);
    for (int n = 0; take && n < g->node_count; n++)
        if (reads(a, n, value))
            take = is_reorder(a, n) ? zt_layout_same(zt_out(g, n, 0)->layout, layout) : reads_either(a, n, value);
    return take;
}

static bool write_so(struct zt_assignment *a, int value, const struct zt_layout *layout) {
    struct zt_graph *g = a->g;
    bool *reader = readers_of(a, value);
    g->values[value]->layout = layout;
    bool ok = prepare_anew(a, g->values[value]->producer);
    for (int n = 0; ok && n < g->node_count; n++)
        if (reader[n] && is_reorder(a, n))
            take_out(a, n);
        else if (reader[n])
            ok = prepare_anew(a, n);
    free(reader);
    return ok;
}

/* ---- readers that read the original layout ---- */

static bool all_read_either(const struct zt_assignment *a, int value) {
    bool either = !is_read_outside(a, value);
    for (int n = 0; either && n < a->g->node_count; n++)
        either = !reads(a, n, value) || (!is_reorder(a, n) && reads_either(a, n, value));
    return either;
}

static bool read_so(struct zt_assignment *a, int reorder) {
    struct zt_graph *g = a->g;
    const int value = g->nodes[reorder]->out[0];
    bool *reader = readers_of(a, value), ok = true;
    take_out(a, reorder);
    for (int n = 0; ok && n < g->node_count; n++)
        ok = !reader[n] || prepare_anew(a, n);
    free(reader);
    return ok;
}

/* ---- all of them ---- */

static bool any_is_free(const struct zt_assignment *a) {
    bool any = false;
    for (int n = 0; !any && n < a->g->node_count; n++)
        any = a->prepared[n].free_in || a->prepared[n].free_out;
    return any;
}

bool zt_settle_layouts(struct zt_assignment *a) {
    struct zt_graph *g = a->g;
    bool ok = true;
    if (!any_is_free(a))
        return true;
    for (int n = 0; ok && n < g->node_count; n++) {
        const bool reorders = !g->nodes[n]->dead && (is_reorder(a, n) || is_copying_view(a, n));
        if (reorders && writes_either(a, g->nodes[n]->in[0]) &&
            all_take(a, g->nodes[n]->in[0], zt_out(g, n, 0)->layout))
            ok = write_so(a, g->nodes[n]->in[0], zt_out(g, n, 0)->layout);
    }
    for (int n = a->first_reorder; ok && n < g->node_count; n++)
        if (!g->nodes[n]->dead && all_read_either(a, g->nodes[n]->out[0]))
            ok = read_so(a, n);
    return ok;
}
