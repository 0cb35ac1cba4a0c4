#include "graph/passes/recompute/apply_choice.h"

#include <stdlib.h>
#include <string.h>

enum {
    SMALL = 32
}; /* an output smaller than 1/SMALL of its node's outputs is saved: recomputing it is not worthwhile */

/* ---- what a choice keeps ---- */

static void save_small(const struct zt_forward *f, int n, bool *saved) {
    const struct zt_node *node = f->g->nodes[n];
    int64_t total = 0;
    for (int i = 0; i < node->out_count; i++)
        total += node->out[i] >= 0 ? f->bytes[node->out[i]] : 0;
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0 && f->bytes[node->out[i]] * SMALL < total)
            saved[node->out[i]] = true;
}

bool *zt_choice_saved_values(const struct zt_forward *f, const struct zt_choice *c) {
    const struct zt_graph *g = f->g;
    bool *saved = zt_calloc((size_t)g->value_count + 1, sizeof *saved);
    int *nodes = zt_calloc((size_t)f->count + 1, sizeof *nodes); /* by segment */
    for (int n = 0; n < f->count; n++)
        if (c->segment[n] >= 0)
            nodes[c->segment[n]]++;
    for (int i = 0; i < g->value_count; i++) {
        int n = g->values[i]->producer;
        saved[i] = n < 0 || n >= f->count || !c->recomputed[n] || f->fixed[n] || f->root[i];
    }
    for (int n = 0; n < f->count; n++) {
        save_small(f, n, saved);
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            int value = g->nodes[n]->in[i], from = value >= 0 ? g->values[value]->producer : -1;
            int segment = from >= 0 ? c->segment[from] : -1;
            if (segment >= 0 && segment != c->segment[n] && nodes[segment] > 1)
                saved[value] = true;
        }
    }
    free(nodes);
    return saved;
}

int *zt_choice_clones(const struct zt_forward *f, const struct zt_choice *c, const bool *saved) {
    const struct zt_graph *g = f->g;
    int *at = zt_malloc(((size_t)f->count + 1) * sizeof *at);
    int *first =
        zt_malloc(((size_t)g->value_count + 1) * sizeof *first); /* by value: the first that reads it recomputed */
    for (int i = 0; i < g->value_count; i++)
        first[i] = g->node_count;
    for (int n = g->node_count - 1; n >= f->count; n--)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] >= 0)
                first[g->nodes[n]->in[i]] = n;
    for (int n = f->count - 1; n >= 0; n--) {
        const struct zt_node *node = g->nodes[n];
        at[n] = g->node_count;
        for (int i = 0; c->recomputed[n] && i < node->out_count; i++)
            if (node->out[i] >= 0 && !saved[node->out[i]] && first[node->out[i]] < at[n])
                at[n] = first[node->out[i]];
        for (int i = 0; at[n] < g->node_count && i < node->in_count; i++)
            if (node->in[i] >= 0 && at[n] < first[node->in[i]])
                first[node->in[i]] = at[n];
        if (at[n] == g->node_count)
            at[n] = -1;
    }
    free(first);
    return at;
}

/* ---- the rewrite ---- */

/* `twin`: by value, the clone's value; -1: the value is saved or not recomputed. */
static void clone_node(struct zt_graph *g, int n, int before, const bool *saved, int *twin) {
    const struct zt_node from = *g->nodes[n];
    int *in = zt_malloc(((size_t)(from.in_count + from.out_count) + 1) * sizeof *in), *out = in + from.in_count;
    for (int i = 0; i < from.in_count; i++)
        in[i] = from.in[i] >= 0 && twin[from.in[i]] >= 0 ? twin[from.in[i]] : from.in[i];
    for (int i = 0; i < from.out_count; i++) {
        int value = from.out[i];
        out[i] = -1;
        if (value < 0)
            continue;
        struct zt_shape shape = g->values[value]->shape;
        out[i] = zt_graph_add_value(g, zt_arena_printf(g->arena, "%s recomputed", g->values[value]->name),
                                    g->values[value]->dtype, &shape);
        if (!saved[value])
            twin[value] = out[i];
    }
    int clone =
        zt_graph_add_node(g, &(struct zt_node_spec){ zt_arena_printf(g->arena, "again: %s", from.name), from.op_type,
                                                     from.domain, from.opset, in, from.in_count, out, from.out_count });
    struct zt_node *to = g->nodes[clone];
    to->op = from.op;
    to->attr = from.attr;
    to->attr_count = from.attr_count;
    to->phase = ZT_BACKWARD;
    to->stage = from.stage;
    to->place = g->nodes[before]->place;
    if (from.op->flags & ZT_OP_RANDOM && !zt_node_attr(&from, "key")) /* the clone draws the same numbers */
        zt_node_set_text(g, clone, "key", from.name);
    free(in);
}

bool zt_choice_apply(const struct zt_forward *f, struct zt_choice *c, struct zt_graph *g, struct zt_err *err) {
    bool *saved = zt_choice_saved_values(f, c);
    int *before = zt_choice_clones(f, c, saved), count = g->node_count, values = g->value_count;
    int *twin = zt_malloc(((size_t)values + 1) * sizeof *twin);
    memset(twin, -1, ((size_t)values + 1) * sizeof *twin);
    c->work = 0;
    for (int n = 0; n < f->count; n++) {
        if (before[n] < 0)
            continue;
        clone_node(g, n, before[n], saved, twin);
        c->work += zt_op_work(g, n);
    }
    for (int n = f->count; n < count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++)
            if (g->nodes[n]->in[i] >= 0 && g->nodes[n]->in[i] < values && twin[g->nodes[n]->in[i]] >= 0)
                g->nodes[n]->in[i] = twin[g->nodes[n]->in[i]];
    free(twin);
    free(before);
    free(saved);
    return zt_graph_sort(g, err);
}
