#include "graph/passes/data_sizes.h"

#include "graph/ir/list.h"
#include "graph/passes/bounds.h"

#include <stdlib.h>
#include <string.h>

/* Arrays by value or by node. */
struct enclosing {
    struct zt_graph *g;
    int first, last;                             /* nodes that are not inferred yet: first..last - 1 */
    int seed;                                    /* the first node to be enclosed */
    struct zt_graph *most, *less;                /* both trials */
    bool *varies;                                /* by value */
    bool *inside;                                /* by node */
    bool *is_output, *is_read, *is_read_outside; /* by value */
    bool *joined;                                /* by value: varies, and an enclosed node reads or writes it */
    bool *behind, *needed;                       /* by value: depends on the enclosed nodes; they depend on it */
    int *copy;                                   /* by value: its id in the enclosed graph; -1: none */
};

/* ---- what varies ---- */

bool zt_data_sizes_same_contents(const struct zt_value *a, const struct zt_value *b) {
    if (!a->data || !b->data)
        return !a->data == !b->data;
    return a->data == b->data || memcmp(a->data, b->data, (size_t)zt_value_bytes(a)) == 0;
}

bool zt_data_sizes_same(const struct zt_value *a, const struct zt_value *b) {
    return zt_shape_equal(&a->shape, &b->shape) && zt_data_sizes_same_contents(a, b);
}

/* Floats that only one of the trials knows, since it took another branch of an If, are none that sizes follow from. */
static bool contents_vary(const struct zt_value *a, const struct zt_value *b) {
    if (!a->data != !b->data && a->dtype == b->dtype && zt_dtype_in(a->dtype, ZT_ANY_FLOAT))
        return false;
    return !zt_data_sizes_same_contents(a, b);
}

/* Whether the value is a sequence or optional that nodes before the enclosed ones made. */
static bool is_made_list(const struct zt_value *v) {
    return v->list && v->list->count >= 0;
}

/* Whether the trials found another size or other contents. */
static bool differs(const struct enclosing *e, int value) {
    const struct zt_value *a = e->most->values[value], *b = e->less->values[value];
    return !zt_shape_equal(&a->shape, &b->shape) || contents_vary(a, b);
}

/* A sequence or optional cannot be what an EagerRun reads or gives. */
static void find_what_varies(struct enclosing *e) {
    for (int v = 0; v < e->g->value_count; v++)
        e->varies[v] = differs(e, v) || (e->most->values[v]->list && !is_made_list(e->g->values[v]));
}

static bool any_of(const bool *of, const int *values, int count) {
    for (int i = 0; i < count; i++)
        if (values[i] >= 0 && of[values[i]])
            return true;
    return false;
}

static bool touches(const bool *of, const struct zt_node *node) {
    return any_of(of, node->in, node->in_count) || any_of(of, node->out, node->out_count);
}

static void join(struct enclosing *e, const int *values, int count) {
    for (int i = 0; i < count; i++)
        if (values[i] >= 0 && e->varies[values[i]])
            e->joined[values[i]] = true;
}

/* An EagerRun neither reads nor gives what varies, so nodes that share such a value are enclosed together. */
static bool add_connected(struct enclosing *e) {
    bool added = false;
    for (int n = e->first; n < e->last; n++) {
        const struct zt_node *node = e->g->nodes[n];
        if (node->dead || !(e->inside[n] || touches(e->joined, node)))
            continue;
        added |= !e->inside[n];
        e->inside[n] = true;
        join(e, node->in, node->in_count);
        join(e, node->out, node->out_count);
    }
    return added;
}

/* Numbers of which shapes may be made are known in an eager run too; what has a gradient stays an input. */
static bool is_known(const struct zt_value *v) {
    const bool settled = v->origin == ZT_FROM_CONSTANT || v->origin == ZT_FROM_INITIALIZER;
    return zt_value_is_constant(v) && (settled || !zt_dtype_in(v->dtype, ZT_ANY_FLOAT));
}

/* Whether both trials found the same contents. */
static bool is_settled(const struct enclosing *e, int value) {
    return !e->varies[value] && is_known(e->most->values[value]) && e->less->values[value]->data;
}

/* Marks what is settled by neither trial among the values; returns whether any was not marked. */
static bool mark_unsettled(const struct enclosing *e, bool *marks, const int *values, int count) {
    bool marked = false;
    for (int i = 0; i < count; i++)
        if (values[i] >= 0 && !marks[values[i]] && !is_settled(e, values[i]))
            marks[values[i]] = marked = true;
    return marked;
}

/* Nodes behind an EagerRun stand before it. */
static void find_behind(struct enclosing *e) {
    memset(e->behind, 0, (size_t)e->g->value_count * sizeof *e->behind);
    for (bool again = true; again;) {
        again = false;
        for (int n = e->first; n < e->last; n++) {
            const struct zt_node *node = e->g->nodes[n];
            if (!node->dead && (e->inside[n] || any_of(e->behind, node->in, node->in_count)))
                again |= mark_unsettled(e, e->behind, node->out, node->out_count);
        }
    }
}

static void find_needed(struct enclosing *e) {
    memset(e->needed, 0, (size_t)e->g->value_count * sizeof *e->needed);
    for (bool again = true; again;) {
        again = false;
        for (int n = e->last - 1; n >= e->first; n--) {
            const struct zt_node *node = e->g->nodes[n];
            if (!node->dead && (e->inside[n] || any_of(e->needed, node->out, node->out_count)))
                again |= mark_unsettled(e, e->needed, node->in, node->in_count);
        }
    }
}

/* A node between two enclosed ones is enclosed too: one node cannot read what depends on its own results. Contents that
 * are settled do not: enclosed nodes read them as constants. Those of a Shape stay outside, where other nodes make
 * shapes of them. */
static bool add_between(struct enclosing *e) {
    bool added = false;
    find_behind(e);
    find_needed(e);
    for (int n = e->first; n < e->last; n++) {
        const struct zt_node *node = e->g->nodes[n];
        if (!node->dead && !e->inside[n] && any_of(e->needed, node->out, node->out_count) &&
            any_of(e->behind, node->in, node->in_count))
            e->inside[n] = added = true;
    }
    return added;
}

/* A sequence or optional that is read from outside is made inside too, by the nodes that made it, which are expanded.
 */
static void add_lists(struct enclosing *e) {
    memset(e->needed, 0, (size_t)e->g->value_count * sizeof *e->needed);
    for (int n = e->g->node_count - 1; n >= 0; n--) {
        const struct zt_node *node = e->g->nodes[n];
        e->inside[n] |= n < e->first && node->dead && any_of(e->needed, node->out, node->out_count);
        for (int i = 0; e->inside[n] && i < node->in_count; i++)
            if (node->in[i] >= 0 && is_made_list(e->g->values[node->in[i]]))
                e->needed[node->in[i]] = true;
    }
}

/* ---- what cannot be enclosed ---- */

/* Marks the values that are outputs of the graph, that a node reads, and that a node outside of the enclosed ones
 * reads. */
static void find_readers(struct enclosing *e) {
    for (int i = 0; i < e->g->output_count; i++)
        e->is_output[e->g->outputs[i]] = true;
    for (int n = e->first; n < e->last; n++)
        for (int i = 0; !e->g->nodes[n]->dead && i < e->g->nodes[n]->in_count; i++) {
            const int v = e->g->nodes[n]->in[i];
            if (v < 0)
                continue;
            e->is_read[v] = true;
            e->is_read_outside[v] |= !e->inside[n];
        }
}

/* What keeps a node from being inside; NULL: nothing. An EagerRun gives its own nodes their training form, and not
 * those of graphs that they hold (`nested`); running statistics, which a training form updates, it cannot hand out. */
static const char *why_outcast(const struct zt_op *op, bool nested) {
    const unsigned flags = op ? op->flags : 0;
    if (flags & ZT_OP_TRAINS_OTHERWISE)
        return nested || op->statistic_in ? "has a training form" : NULL;
    return flags & ZT_OP_RANDOM ? "draws random numbers" : NULL;
}

/* The node of a graph, subgraphs included, that cannot be inside, with what keeps it from there; NULL: all can. */
static const struct zt_node *find_outcast(const struct zt_op_table *table, const struct zt_node *node, bool nested,
                                          const char **what) {
    *what = why_outcast(zt_op_of(table, node), nested);
    const struct zt_node *found = *what ? node : NULL;
    for (int i = 0; i < node->attr_count; i++) {
        const struct zt_graph *body = node->attr[i].graph;
        for (int k = 0; !found && body && k < body->node_count; k++)
            found = find_outcast(table, body->nodes[k], true, what);
    }
    return found;
}

static bool check_node(const struct enclosing *e, int n, struct zt_err *err) {
    const struct zt_node *node = e->g->nodes[n];
    const char *what;
    if (find_outcast(e->g->table, node, false, &what))
        return zt_node_fail(e->g, n, err,
                            "%s, and the size of what it reads depends on data (of \"%s\"): not supported in training",
                            what, e->g->nodes[e->seed]->name);
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0 && e->varies[node->out[i]] && e->is_output[node->out[i]] && !e->is_read[node->out[i]])
            return zt_node_fail(e->g, n, err,
                                "the size of \"%s\" depends on data, which the loss cannot read: only what has a fixed "
                                "size in the end (a mean, a sum) is supported in training",
                                e->g->values[node->out[i]]->name);
    return true;
}

static bool check_nodes(const struct enclosing *e, struct zt_err *err) {
    for (int n = 0; n < e->last; n++)
        if (e->inside[n] && !check_node(e, n, err))
            return false;
    return true;
}

/* ---- the enclosed graph ---- */

/* The contents of a value that is a constant, also of one that a node behind this one writes, which is not inferred
 * yet: both trials found the same, of which this is a copy. NULL: it is none. */
static const void *known_contents(const struct enclosing *e, int value) {
    const struct zt_value *v = e->g->values[value], *tried = e->most->values[value];
    if (is_known(v))
        return v->data;
    return v->producer >= e->first && is_settled(e, value)
               ? zt_arena_copy(e->g->arena, tried->data, (size_t)zt_value_bytes(tried))
               : NULL;
}

/* What is known of a number on which a Loop inside may depend; NULL: nothing. */
static const struct zt_bounds *bounds_of(const struct enclosing *e, int value) {
    const struct zt_value *v = e->most->values[value];
    if (zt_shape_count(&v->shape) != 1 || !zt_dtype_in(v->dtype, ZT_ANY_INT | ZT_BIT(ZT_BOOL)))
        return NULL;
    const struct zt_bounds bounds = zt_bounds_of(e->most, value);
    return zt_arena_copy(e->g->arena, &bounds, sizeof bounds);
}

/* The copy of a value that an enclosed node reads or writes; from outside it is a constant or an input. */
static int copied(struct enclosing *e, struct zt_graph *to, int value, bool written, int *in) {
    struct zt_value *v = e->g->values[value];
    if (e->copy[value] >= 0)
        return e->copy[value];
    if (!written) { /* a node behind this one may write it, which is not inferred yet */
        v->dtype = e->most->values[value]->dtype;
        v->shape = e->most->values[value]->shape;
    }
    const int id = e->copy[value] =
        zt_graph_add_value(to, v->name, written ? ZT_UNDEFINED : v->dtype, written ? NULL : &v->shape);
    if (written)
        return id;
    const void *contents = known_contents(e, value);
    to->values[id]->origin = contents ? ZT_FROM_CONSTANT : ZT_FROM_INPUT;
    to->values[id]->data = contents;
    if (!contents) {
        to->values[id]->bounds = bounds_of(e, value);
        in[to->input_count] = value;
        to->inputs[to->input_count++] = id;
    }
    return id;
}

static void copy_node(struct enclosing *e, struct zt_graph *to, int n, int *in) {
    const struct zt_node *node = e->g->nodes[n];
    int *reads = ZT_NEW_N(to->arena, int, node->in_count + 1), *writes = ZT_NEW_N(to->arena, int, node->out_count + 1);
    for (int i = 0; i < node->in_count; i++)
        reads[i] = node->in[i] < 0 ? -1 : copied(e, to, node->in[i], false, in);
    for (int i = 0; i < node->out_count; i++)
        writes[i] = node->out[i] < 0 ? -1 : copied(e, to, node->out[i], true, in);
    const int made = zt_graph_add_node(to, &(struct zt_node_spec){ node->name, node->op_type, node->domain, node->opset,
                                                                   reads, node->in_count, writes, node->out_count });
    for (int i = 0; i < node->attr_count; i++)
        zt_node_set_attr(to, made, &node->attr[i]);
    to->nodes[made]->op = node->op;
    to->nodes[made]->captured = node->captured;
}

static int list_outputs(struct enclosing *e, struct zt_graph *to, int *out) {
    for (int n = e->first; n < e->last; n++)
        for (int i = 0; e->inside[n] && i < e->g->nodes[n]->out_count; i++) {
            const int v = e->g->nodes[n]->out[i];
            if (v < 0 || e->varies[v] || !(e->is_output[v] || e->is_read_outside[v]))
                continue;
            const struct zt_value *shape = e->most->values[v];
            to->values[e->copy[v]]->dtype = e->g->values[v]->dtype = shape->dtype;
            to->values[e->copy[v]]->shape = e->g->values[v]->shape = shape->shape;
            out[to->output_count] = v;
            to->outputs[to->output_count++] = e->copy[v];
        }
    return to->output_count;
}

static int count_links(const struct enclosing *e) {
    int count = 1;
    for (int n = 0; n < e->last; n++)
        count += e->inside[n] ? e->g->nodes[n]->in_count + e->g->nodes[n]->out_count : 0;
    return count;
}

static bool enclose(struct enclosing *e, struct zt_err *err) {
    struct zt_graph *g = e->g, *to = zt_graph_create_in(g->arena, "enclosed");
    const int most = count_links(e);
    int *in = ZT_NEW_N(g->arena, int, most), *out = ZT_NEW_N(g->arena, int, most);
    to->inputs = ZT_NEW_N(g->arena, int, most);
    to->outputs = ZT_NEW_N(g->arena, int, most);
    to->table = g->table;
    to->functions = g->functions;
    for (int n = 0; n < e->last; n++)
        if (e->inside[n])
            copy_node(e, to, n, in);
    const bool good = zt_graph_index(to, err);
    const int outputs = list_outputs(e, to, out), inputs = to->input_count;
    zt_graph_settle(to);
    if (!good)
        return false;
    const struct zt_node *seed = g->nodes[e->seed];
    const int node =
        zt_graph_add_node(g, &(struct zt_node_spec){ seed->name, "EagerRun", "ztrain", 1, in, inputs, out, outputs });
    g->nodes[node]->place = seed->place;
    g->nodes[node]->stage = seed->stage;
    zt_node_set_attr(g, node, &(struct zt_attr){ .name = "body", .type = ZT_ATTR_GRAPH, .graph = to });
    for (int n = e->first; n < e->last; n++)
        g->nodes[n]->dead |= e->inside[n];
    return zt_op_resolve(g->table, g, node, err) && zt_op_infer(g, node, err);
}

/* ---- the pass ---- */

/* A node with bounds that are the same, from the shapes of its inputs, has another fault. */
static bool check_bounds_differ(const struct enclosing *e, struct zt_err *err) {
    const struct zt_node *n = e->g->nodes[e->first];
    if (!n->op->bound)
        return true;
    if (!n->op->bound(e->most, e->first, false, err) || !n->op->bound(e->less, e->first, true, err))
        return false;
    for (int i = 0; i < n->out_count; i++)
        if (n->out[i] >= 0 && !zt_data_sizes_same(e->most->values[n->out[i]], e->less->values[n->out[i]]))
            return true;
    return zt_op_infer(e->g, e->first, err);
}

static bool run_trials(struct enclosing *e, const struct zt_size_trial *trial, struct zt_err *err) {
    e->most = zt_graph_clone(e->g);
    e->less = zt_graph_clone(e->g);
    return check_bounds_differ(e, err) && trial->infer(trial->with, e->most, e->first, NULL, err) &&
           trial->infer(trial->with, e->less, e->first, e->most, err);
}

/* Encloses the seed and what belongs to it. */
static bool enclose_seed(struct enclosing *e, int seed, struct zt_err *err) {
    e->seed = seed;
    e->last = e->g->node_count;
    memset(e->inside, 0, (size_t)e->last * sizeof *e->inside);
    memset(e->joined, 0, (size_t)e->g->value_count * sizeof *e->joined);
    memset(e->is_read, 0, (size_t)e->g->value_count * sizeof *e->is_read);
    memset(e->is_read_outside, 0, (size_t)e->g->value_count * sizeof *e->is_read_outside);
    memset(e->copy, -1, (size_t)e->g->value_count * sizeof *e->copy);
    e->inside[seed] = true;
    while (add_connected(e) || add_between(e))
        ;
    add_lists(e);
    find_readers(e);
    return check_nodes(e, err) && enclose(e, err);
}

static bool gives_what_differs(const struct enclosing *e, const struct zt_node *node) {
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0 && differs(e, node->out[i]))
            return true;
    return false;
}

/* Encloses the first node, and all others whose results vary: the trials have shown all of them. */
static bool enclose_all(struct enclosing *e, struct zt_err *err) {
    const int nodes = e->g->node_count;
    for (int n = e->first; n < nodes; n++)
        if (!e->g->nodes[n]->dead && (n == e->first || gives_what_differs(e, e->g->nodes[n])) &&
            !enclose_seed(e, n, err))
            return false;
    return true;
}

bool zt_data_sizes_enclose(struct zt_graph *g, int node, const struct zt_size_trial *trial, struct zt_err *err) {
    struct zt_arena *scratch = zt_arena_create();
    struct enclosing e = { .g = g, .first = node };
    e.varies = ZT_NEW_N(scratch, bool, g->value_count + 1);
    e.is_output = ZT_NEW_N(scratch, bool, g->value_count + 1);
    e.is_read = ZT_NEW_N(scratch, bool, g->value_count + 1);
    e.is_read_outside = ZT_NEW_N(scratch, bool, g->value_count + 1);
    e.joined = ZT_NEW_N(scratch, bool, g->value_count + 1);
    e.behind = ZT_NEW_N(scratch, bool, g->value_count + 1);
    e.needed = ZT_NEW_N(scratch, bool, g->value_count + 1);
    e.inside = ZT_NEW_N(scratch, bool, 2 * g->node_count + 1); /* each node of the graph may become an EagerRun */
    e.copy = ZT_NEW_N(scratch, int, g->value_count + 1);
    bool good = run_trials(&e, trial, err);
    if (good) {
        find_what_varies(&e);
        good = enclose_all(&e, err);
    }
    zt_graph_destroy(e.most);
    zt_graph_destroy(e.less);
    zt_arena_destroy(scratch);
    return good;
}
