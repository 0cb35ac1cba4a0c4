/* Counts the nodes of expanded bodies before any is expanded.
 *
 * Names of nodes and values begin with the names of the calls around them. A body with a prefix of p characters
 * therefore takes  bytes + names * p, and a call of the name m in it adds  bytes_f + names_f * (p + |m| + 1). Each
 * function is counted once: 60 functions that call each other twice are 2^60 nodes and 60 counts. */
#include "graph/passes/lower_count.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_BYTES = 256, VALUE_BYTES = sizeof(struct zt_value) + 64 /* its name's slot */ };

void zt_lower_counter_init(struct zt_lower_counter *c, const struct zt_functions *functions,
                           const struct zt_op_table *table) {
    const int count = functions ? functions->count : 0;
    *c = (struct zt_lower_counter){ functions, table, zt_malloc(((size_t)count + 1) * sizeof *c->of) };
    for (int i = 0; i < count; i++)
        c->of[i].nodes = -1;
}

void zt_lower_counter_finish(struct zt_lower_counter *c) {
    free(c->of);
    c->of = NULL;
}

const struct zt_function *zt_lower_called(const struct zt_functions *functions, const struct zt_op_table *table,
                                          const struct zt_node *n) {
    const struct zt_function *f = zt_function_find(functions, n->domain, n->op_type, n->overload);
    return f && !n->domain[0] && zt_op_of(table, n) ? NULL : f;
}

static void add_name(struct zt_lower_count *to, const char *name) {
    to->bytes += 2 * (double)strlen(name);
    to->names += 2;
}

static void add_call(struct zt_lower_counter *c, struct zt_lower_count *to, const struct zt_function *f,
                     const struct zt_node *n) {
    const struct zt_lower_count inside = zt_lower_count_function(c, f);
    to->nodes += inside.nodes;
    to->bytes += inside.bytes + inside.names * (double)(strlen(n->name) + 1);
    to->bytes += (double)(n->attr_count + f->parameters.count) * (double)sizeof(struct zt_attr);
    to->names += inside.names;
    to->bodies += inside.bodies;
    add_name(to, n->name);
}

static void add_node(struct zt_lower_count *to, const struct zt_node *n) {
    to->nodes++;
    for (int i = 0; i < n->attr_count; i++)
        to->bodies += n->attr[i].graph != NULL;
    to->bytes += (double)(sizeof *n + 2 * (size_t)(n->in_count + n->out_count) * sizeof(int) + strlen(n->op_type) +
                          strlen(n->domain) + (size_t)n->attr_count * sizeof *n->attr);
    add_name(to, n->name);
}

/* An output that no node of the body computes, or that is listed twice, needs a copying node. */
static void add_outputs(struct zt_lower_count *to, const struct zt_graph *body) {
    bool *seen = zt_calloc((size_t)body->value_count + 1, sizeof *seen);
    for (int i = 0; i < body->output_count; i++) {
        const struct zt_value *v = body->values[body->outputs[i]];
        if (v->origin != ZT_FROM_NODE || seen[v->id]) {
            to->nodes++;
            to->bytes += (double)sizeof(struct zt_node);
            add_name(to, v->name);
        }
        seen[v->id] = true;
    }
    free(seen);
}

struct zt_lower_count zt_lower_count_subgraph(struct zt_lower_counter *c, const struct zt_graph *body) {
    struct zt_lower_count to = { .nodes = 0, .bytes = BODY_BYTES + (double)body->value_count * (double)sizeof(int) };
    for (int n = 0; n < body->node_count; n++) {
        const struct zt_node *node = body->nodes[n];
        const struct zt_function *f = zt_lower_called(c->functions, c->table, node);
        if (f)
            add_call(c, &to, f, node);
        else
            add_node(&to, node);
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0) {
                to.bytes += VALUE_BYTES;
                add_name(&to, body->values[node->out[i]]->name);
            }
    }
    add_outputs(&to, body);
    return to;
}

struct zt_lower_count zt_lower_count_function(struct zt_lower_counter *c, const struct zt_function *f) {
    struct zt_lower_count *known = &c->of[f - c->functions->at];
    if (known->nodes < 0)
        *known = zt_lower_count_subgraph(c, f->body);
    return *known;
}

struct zt_lower_count zt_lower_count_emitted(const char *op_type, int in_count, int out_count) {
    const struct zt_node node = {
        .name = op_type, .op_type = op_type, .domain = "", .in_count = in_count, .out_count = out_count
    };
    struct zt_lower_count to = { 0 };
    add_node(&to, &node);
    to.bytes += (double)out_count * VALUE_BYTES;
    return to;
}

/* Names of deeply nested nodes are long; their beginning identifies the node. */
static bool fail_large(const struct zt_graph *g, const struct zt_node *n, double nodes, double bytes, double copies,
                       struct zt_err *err) {
    char iterations[64] = "", before[64] = "";
    if (copies != 1)
        snprintf(iterations, sizeof iterations, "runs %.0f iterations and ", copies);
    if (g->lowered_nodes > 0)
        snprintf(before, sizeof before, " beside the %.0f of others", g->lowered_nodes);
    return zt_fail(
        err, ZT_EXIT_MODEL,
        "%.160s%s (%s): %sexpands to %.0f nodes (%.0f MB)%s; the limit for nodes of subgraphs and functions in a "
        "graph is %d nodes and %d MB",
        n->name, strlen(n->name) > 160 ? "..." : "", n->op_type, iterations, nodes, ceil(bytes / 1e6), before,
        ZT_LOWER_NODES, ZT_LOWER_BYTES / 1000000);
}

bool zt_lower_charge(struct zt_graph *g, const struct zt_node *n, const struct zt_lower_count *count, double copies,
                     bool taken, struct zt_err *err) {
    const double nodes = copies * count->nodes,
                 bytes = copies * (count->bytes + count->names * (double)strlen(n->name));
    if (g->lowered_nodes + nodes > ZT_LOWER_NODES || g->lowered_bytes + bytes > ZT_LOWER_BYTES)
        return fail_large(g, n, nodes, bytes, copies, err);
    g->lowered_nodes += taken ? nodes : 0;
    g->lowered_bytes += taken ? bytes : 0;
    return true;
}
