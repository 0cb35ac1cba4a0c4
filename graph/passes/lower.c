#include "graph/passes/lower_count.h"

#include <stdlib.h>
#include <string.h>

/* ---- copying a body ---- */

/* The copies of one function call or one iteration of a subgraph. */
struct copy {
    struct zt_graph *g;
    const struct zt_op_table *table;
    bool resolve;
    struct zt_node like; /* the replaced node: its place, phase and stage are used */
    struct zt_err *err;
};

/* One function or subgraph in it. */
struct frame {
    const struct zt_graph *body;
    const struct zt_attrs *bound;
    const char *prefix;
    int *ids; /* by value of the body: value of the graph */
};

/* Values of the graph for the inputs and captured values of a subgraph. */
struct body_inputs {
    const int *at;
    int count;
    const int *captured;
};

/* A node of a body and the name, attributes and values of its copy. */
struct node_copy {
    const struct zt_node *from;
    const char *name;
    struct zt_attrs attrs;
    int *in, *out;
};

static bool copy_body(const struct copy *c, struct frame *f, const struct body_inputs *in, int *out, int out_count);

static bool fail_copied(const struct copy *c, const struct node_copy *to, const char *what, const char *which) {
    return zt_fail(c->err, ZT_EXIT_MODEL, "%s (%s): %s \"%s\"", to->name, to->from->op_type, what, which);
}

static const struct zt_attr *find_attr(const struct zt_attr *at, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(at[i].name, name) == 0)
            return &at[i];
    return NULL;
}

/* The node's attributes with references resolved; a reference to a parameter without a value is omitted. */
static bool bind_attrs(const struct copy *c, const struct frame *f, struct node_copy *to) {
    const struct zt_node *n = to->from;
    struct zt_attr *list = ZT_NEW_N(c->g->arena, struct zt_attr, n->attr_count);
    to->attrs = (struct zt_attrs){ list, 0 };
    for (int i = 0; i < n->attr_count; i++) {
        struct zt_attr a = n->attr[i];
        if (a.ref) {
            const struct zt_attr *given = f->bound ? find_attr(f->bound->at, f->bound->count, a.ref) : NULL;
            if (!given || given->type == ZT_ATTR_NONE)
                continue;
            if (given->type != a.type)
                return fail_copied(c, to, "the call gives an attribute of another type for", a.ref);
            const char *own = a.name;
            a = *given;
            a.name = own;
        } else if (a.graph && f->bound) {
            a.bound = f->bound;
        }
        list[to->attrs.count++] = a;
    }
    return true;
}

/* The values of f's parameters in a call of it. */
static bool bind_parameters(const struct copy *c, const struct zt_function *f, const struct node_copy *call,
                            struct zt_attrs **to) {
    const struct zt_attrs *given = &call->attrs;
    struct zt_attr *list = ZT_NEW_N(c->g->arena, struct zt_attr, f->parameters.count);
    *to = ZT_NEW(c->g->arena, struct zt_attrs);
    **to = (struct zt_attrs){ list, f->parameters.count };
    for (int i = 0; i < given->count; i++) {
        if (!find_attr(f->parameters.at, f->parameters.count, given->at[i].name))
            return fail_copied(c, call, "the called function has no parameter", given->at[i].name);
        if (given->at[i].type == ZT_ATTR_GRAPH)
            return fail_copied(c, call, "a graph as the argument of a function is not supported:", given->at[i].name);
    }
    for (int i = 0; i < f->parameters.count; i++) {
        const struct zt_attr *a = find_attr(given->at, given->count, f->parameters.at[i].name);
        list[i] = a ? *a : f->parameters.at[i];
    }
    return true;
}

static bool inline_call(const struct copy *c, const struct zt_function *f, const struct node_copy *call) {
    const struct zt_node *n = call->from;
    struct zt_attrs *bound;
    int inputs = n->in_count - n->captured;
    if (inputs > f->body->input_count || n->out_count > f->body->output_count)
        return zt_fail(c->err, ZT_EXIT_MODEL,
                       "%s (%s): calls a function of %d inputs and %d outputs with %d inputs and %d outputs",
                       call->name, n->op_type, f->body->input_count, f->body->output_count, inputs, n->out_count);
    if (!bind_parameters(c, f, call, &bound))
        return false;
    struct frame inner = { .body = f->body, .bound = bound, .prefix = zt_arena_printf(c->g->arena, "%s/", call->name) };
    return copy_body(c, &inner, &(struct body_inputs){ call->in, inputs, f->captured }, call->out, n->out_count);
}

static void take_place(const struct copy *c, int node) {
    struct zt_node *n = c->g->nodes[node];
    n->place = c->like.place;
    n->phase = c->like.phase;
    n->stage = c->like.stage;
    n->file_index = c->like.file_index;
}

static bool add_node(const struct copy *c, const struct node_copy *of) {
    const struct zt_node *n = of->from;
    int id = zt_graph_add_node(c->g, &(struct zt_node_spec){ of->name, n->op_type, n->domain, n->opset, of->in,
                                                             n->in_count, of->out, n->out_count });
    struct zt_node *copy = c->g->nodes[id];
    copy->overload = n->overload;
    copy->captured = n->captured;
    copy->attr = (struct zt_attr *)of->attrs.at;
    copy->attr_count = of->attrs.count;
    copy->torch_namespace = n->torch_namespace;
    copy->torch_fx_node = n->torch_fx_node;
    copy->torch_rule = n->torch_rule;
    take_place(c, id);
    if (n->file_index < 0)
        copy->file_index = -1;
    return !c->resolve || zt_op_resolve(c->table, c->g, id, c->err);
}

/* Creates values for the outputs of a copied node that have none. */
static void name_outputs(const struct copy *c, struct frame *f, const struct zt_node *n, int *out) {
    for (int i = 0; i < n->out_count; i++) {
        out[i] = -1;
        if (n->out[i] < 0)
            continue;
        int *id = &f->ids[n->out[i]];
        const char *name = f->body->values[n->out[i]]->name;
        if (*id < 0)
            *id = zt_graph_add_value(c->g, zt_arena_printf(c->g->arena, "%s%s", f->prefix, name), ZT_UNDEFINED, NULL);
        out[i] = *id;
    }
}

static bool copy_node(const struct copy *c, struct frame *f, const struct zt_node *n) {
    struct zt_arena *arena = c->g->arena;
    struct node_copy to = { .from = n,
                            .name = zt_arena_printf(arena, "%s%s", f->prefix, n->name),
                            .in = ZT_NEW_N(arena, int, n->in_count),
                            .out = ZT_NEW_N(arena, int, n->out_count) };
    for (int i = 0; i < n->in_count; i++)
        to.in[i] = n->in[i] < 0 ? -1 : f->ids[n->in[i]];
    name_outputs(c, f, n, to.out);
    if (!bind_attrs(c, f, &to))
        return false;
    const struct zt_function *called = zt_lower_called(c->g->functions, c->table, n);
    return called ? inline_call(c, called, &to) : add_node(c, &to);
}

/* An output of a subgraph may be one of its inputs: an Identity node then copies the value. */
static bool copy_value(const struct copy *c, const char *prefix, int from, int to) {
    struct zt_op_cursor at = { 0 };
    const struct zt_op *row = zt_op_next(c->table, &at);
    while (row && !zt_op_copies(row))
        row = zt_op_next(c->table, &at);
    if (from < 0 || !row)
        return zt_fail(c->err, ZT_EXIT_MODEL, "%s (%s): one of its outputs is an input that is missing", c->like.name,
                       c->like.op_type);
    const char *name = zt_arena_printf(c->g->arena, "%s%s", prefix, c->g->values[to]->name);
    int node =
        zt_graph_add_node(c->g, &(struct zt_node_spec){ name, row->name, row->domain, ZT_OPSET, &from, 1, &to, 1 });
    take_place(c, node);
    return !c->resolve || zt_op_resolve(c->table, c->g, node, c->err);
}

/* Connects the outputs of a subgraph to the values that the caller requests, or returns their values. */
static bool connect_outputs(const struct copy *c, const struct frame *f, int *out, int out_count) {
    for (int i = 0; i < out_count; i++) {
        int made = f->ids[f->body->outputs[i]];
        if (out[i] < 0)
            out[i] = made;
        else if (out[i] != made && !copy_value(c, f->prefix, made, out[i]))
            return false;
    }
    return true;
}

static bool copy_body(const struct copy *c, struct frame *f, const struct body_inputs *in, int *out, int out_count) {
    const struct zt_graph *body = f->body;
    f->ids = zt_malloc(((size_t)body->value_count + 1) * sizeof *f->ids);
    memset(f->ids, -1, ((size_t)body->value_count + 1) * sizeof *f->ids);
    for (int i = 0; i < body->input_count && i < in->count; i++)
        f->ids[body->inputs[i]] = in->at[i];
    for (int i = 0; i < body->captured_count; i++)
        f->ids[body->captured[i]] = in->captured[i];
    for (int i = 0; i < out_count; i++)
        if (body->values[body->outputs[i]]->origin == ZT_FROM_NODE && f->ids[body->outputs[i]] < 0)
            f->ids[body->outputs[i]] = out[i];
    bool ok = true;
    for (int n = 0; ok && n < body->node_count; n++)
        ok = copy_node(c, f, body->nodes[n]);
    ok = ok && connect_outputs(c, f, out, out_count);
    free(f->ids);
    return ok;
}

/* ---- calls ---- */

static bool charge_call(struct zt_lower_counter *counter, struct zt_graph *g, const struct zt_function *f,
                        const struct zt_node *n, struct zt_err *err) {
    const struct zt_lower_count count = zt_lower_count_function(counter, f);
    return zt_lower_charge(g, n, &count, 1, true, err);
}

bool zt_pass_lower(struct zt_graph *g, const struct zt_op_table *table, struct zt_err *err) {
    struct zt_lower_counter counter;
    int count = g->functions ? g->node_count : 0;
    bool ok = true, any = false;
    zt_lower_counter_init(&counter, g->functions, table);
    for (int n = 0; ok && n < count; n++) {
        struct copy c = { .g = g, .table = table, .like = *g->nodes[n], .err = err };
        const struct zt_function *f = c.like.dead ? NULL : zt_lower_called(g->functions, table, &c.like);
        if (!f)
            continue;
        const struct node_copy call = {
            &c.like, c.like.name, { c.like.attr, c.like.attr_count }, c.like.in, c.like.out
        };
        ok = charge_call(&counter, g, f, &c.like, err) && inline_call(&c, f, &call);
        g->nodes[n]->dead = any = true;
    }
    zt_lower_counter_finish(&counter);
    return ok && (!any || zt_graph_sort(g, err));
}

/* `captured`: the values that the body captures. */
static bool open_body(const struct copy *c, struct zt_lower_counter *counter, const struct zt_attr *attr,
                      const int *captured) {
    const struct zt_graph *body = attr->graph;
    const struct zt_lower_count count = zt_lower_count_subgraph(counter, body);
    if (!zt_lower_charge(c->g, &c->like, &count, 1, true, c->err))
        return false;
    int *in = ZT_NEW_N(c->g->arena, int, body->input_count), *out = ZT_NEW_N(c->g->arena, int, body->output_count);
    memset(out, -1, (size_t)body->output_count * sizeof *out);
    for (int i = 0; i < body->input_count; i++)
        in[i] = zt_graph_add_value(c->g, NULL, ZT_UNDEFINED, NULL);
    struct frame f = { .body = body,
                       .bound = attr->bound,
                       .prefix = zt_arena_printf(c->g->arena, "%s/%s/", c->like.name, attr->name) };
    return copy_body(c, &f, &(struct body_inputs){ in, body->input_count, captured }, out, body->output_count);
}

bool zt_pass_open_bodies(struct zt_graph *g, const struct zt_op_table *table, int most, struct zt_err *err) {
    struct zt_lower_counter counter;
    bool ok = true;
    zt_lower_counter_init(&counter, g->functions, table);
    for (int n = 0; ok && n < g->node_count; n++) { /* appended nodes have their turn too */
        struct copy c = { .g = g, .table = table, .like = *g->nodes[n], .err = err };
        const int *captured = c.like.in + c.like.in_count - c.like.captured;
        for (int i = 0; ok && i < c.like.attr_count; i++) {
            const struct zt_graph *body = c.like.attr[i].graph;
            ok = !body || open_body(&c, &counter, &c.like.attr[i], captured);
            captured += body ? body->captured_count : 0;
        }
        if (ok && g->node_count > most)
            ok = zt_fail(err, ZT_EXIT_MODEL, "more than %d nodes", most);
    }
    zt_lower_counter_finish(&counter);
    return ok;
}

/* ---- nodes with bodies ---- */

bool zt_expand(struct zt_graph *g, int node, const struct zt_settler *settler, struct zt_err *err) {
    struct zt_expansion x = { .g = g, .settler = settler, .node = node };
    bool ok = zt_op_check_inputs(g, node, err);
    for (; ok && !x.done; x.step++) {
        int first = g->node_count;
        ok = g->nodes[node]->op->expand(&x, err) && settler->settle(settler->with, first, g->node_count, err);
    }
    zt_vec_finish(&x.values);
    g->nodes[node]->dead = true;
    return ok;
}

const struct zt_graph *zt_expand_subgraph(const struct zt_expansion *x, const char *name) {
    return zt_node_attr(x->g->nodes[x->node], name)->graph;
}

/* All iterations have the same subgraph, which is counted once. */
static const struct zt_lower_count *count_of(struct zt_expansion *x, const struct zt_graph *body) {
    if (x->counted != body) {
        struct zt_lower_counter counter;
        zt_lower_counter_init(&counter, x->g->functions, x->g->table);
        const struct zt_lower_count count = zt_lower_count_subgraph(&counter, body);
        x->count = zt_arena_copy(x->g->arena, &count, sizeof count);
        x->counted = body;
        zt_lower_counter_finish(&counter);
    }
    return x->count;
}

struct zt_lower_count zt_expand_count(struct zt_expansion *x, const char *name) {
    return *count_of(x, zt_expand_subgraph(x, name));
}

bool zt_expand_fits(struct zt_expansion *x, const char *name, int64_t iterations, int more, struct zt_err *err) {
    struct zt_lower_count each = *count_of(x, zt_expand_subgraph(x, name));
    each.nodes += more;
    return zt_lower_charge(x->g, x->g->nodes[x->node], &each, (double)iterations, false, err);
}

bool zt_expand_open(struct zt_expansion *x, const char *name, const struct zt_expand_target *to, int *out,
                    struct zt_err *err) {
    struct copy c = { .g = to->g, .table = x->g->table, .resolve = true, .like = *x->g->nodes[x->node], .err = err };
    const struct zt_attr *attr = zt_node_attr(&c.like, name);
    if (!zt_lower_charge(to->g, &c.like, count_of(x, attr->graph), 1, true, err))
        return false;
    struct frame f = { .body = attr->graph,
                       .bound = attr->bound,
                       .prefix = zt_arena_printf(to->g->arena, "%s/", c.like.name) };
    return copy_body(&c, &f, &(struct body_inputs){ to->in, f.body->input_count, to->captured }, out,
                     f.body->output_count);
}

bool zt_expand_copy(struct zt_expansion *x, const char *name, const int *in, int *out, struct zt_err *err) {
    struct copy c = { .g = x->g, .table = x->g->table, .resolve = true, .like = *x->g->nodes[x->node], .err = err };
    const struct zt_attr *attr = zt_node_attr(&c.like, name);
    const int *captured = c.like.in + c.like.in_count - c.like.captured;
    for (int i = 0; &c.like.attr[i] != attr; i++)
        captured += c.like.attr[i].graph ? c.like.attr[i].graph->captured_count : 0;
    if (!zt_lower_charge(x->g, &c.like, count_of(x, attr->graph), 1, true, err))
        return false;
    struct frame f = { .body = attr->graph, .bound = attr->bound };
    f.prefix = x->step || !x->done ? zt_arena_printf(x->g->arena, "%s#%d/", c.like.name, x->step)
                                   : zt_arena_printf(x->g->arena, "%s/", c.like.name);
    return copy_body(&c, &f, &(struct body_inputs){ in, f.body->input_count, captured }, out, f.body->output_count);
}

bool zt_expand_emit(struct zt_expansion *x, const struct zt_expand_node *spec, int *out, int out_count,
                    struct zt_err *err) {
    struct copy c = { .g = x->g, .table = x->g->table, .like = *x->g->nodes[x->node], .err = err };
    const struct zt_lower_count one = zt_lower_count_emitted(spec->op_type, spec->in_count, out_count);
    if (!zt_lower_charge(x->g, &c.like, &one, 1, true, err))
        return false;
    for (int i = 0; i < out_count; i++)
        out[i] = out[i] < 0 ? zt_graph_add_value(x->g, NULL, ZT_UNDEFINED, NULL) : out[i];
    int node = zt_graph_add_node(
        x->g, &(struct zt_node_spec){ zt_arena_printf(x->g->arena, "%s/%s", c.like.name, spec->op_type), spec->op_type,
                                      "", ZT_OPSET, spec->in, spec->in_count, out, out_count });
    take_place(&c, node);
    for (int i = 0; i < spec->attr_count; i++)
        zt_node_set_attr(x->g, node, &spec->attrs[i]);
    return zt_op_resolve(x->g->table, x->g, node, err);
}

bool zt_expand_emit_own(struct zt_expansion *x, const struct zt_expand_node *spec, const int *out, int out_count,
                        struct zt_err *err) {
    struct copy c = { .g = x->g, .table = x->g->table, .like = *x->g->nodes[x->node], .err = err };
    const int node = zt_graph_add_node(x->g, &(struct zt_node_spec){ c.like.name, spec->op_type, "ztrain", 1, spec->in,
                                                                     spec->in_count, out, out_count });
    take_place(&c, node);
    x->g->nodes[node]->file_index = -1;
    for (int i = 0; i < spec->attr_count; i++)
        zt_node_set_attr(x->g, node, &spec->attrs[i]);
    return zt_op_resolve(x->g->table, x->g, node, err);
}
