/* The gradient rule of an If that chooses its branch when it runs (ops/control/if.h).
 *
 *     y = c ? f(a) : g(b)        da = c ? (df/da)^T dy : 0        db = c ? 0 : (dg/db)^T dy
 *
 * The gradient graph of a branch has the inputs of the branch, then the cotangents of the outputs that have one; its
 * outputs are the gradients of the inputs that want one. */
#include "ops/control/if.h"

#include "graph/passes/grad.h"

#include <stdlib.h>
#include <string.h>

/* While the gradient node is made. */
struct back {
    struct zt_grad *b;
    int node;
    int *given; /* outputs of the node that have a gradient */
    int given_count;
    int *wanted; /* inputs of the node that want one, those of the then_branch first */
    int wanted_count;
};

static int add_zeros(struct zt_graph *g, int like) {
    const struct zt_value *v = g->values[like];
    const struct zt_shape shape = v->shape;
    void *zeros = zt_calloc((size_t)zt_value_bytes(v) + 1, 1);
    const int id = zt_graph_add_constant(g, NULL, v->dtype, &shape, zeros);
    free(zeros);
    return id;
}

/* The cotangents become inputs behind those of the branch. */
static struct zt_cotangent *add_cotangents(const struct back *k, struct zt_graph *g) {
    int *inputs = ZT_NEW_N(g->arena, int, g->input_count + k->given_count + 1);
    struct zt_cotangent *from = ZT_NEW_N(g->arena, struct zt_cotangent, k->given_count + 1);
    if (g->input_count)
        memcpy(inputs, g->inputs, (size_t)g->input_count * sizeof *inputs);
    g->inputs = inputs;
    for (int i = 0; i < k->given_count; i++) {
        const int of = g->outputs[k->given[i]];
        const struct zt_shape shape = g->values[of]->shape;
        const int id = zt_graph_add_value(g, "gradient", g->values[of]->dtype, &shape);
        g->values[id]->origin = ZT_FROM_INPUT;
        g->inputs[g->input_count++] = id;
        from[i] = (struct zt_cotangent){ of, id };
    }
    return from;
}

/* Outputs of `g` are the gradients of its inputs `wanted`, zeros where no path leads to one. */
static bool differentiate(const struct back *k, struct zt_graph *g, const int *wanted, int count, struct zt_err *err) {
    const struct zt_cotangent *from = add_cotangents(k, g);
    int *grads = ZT_NEW_N(g->arena, int, count + 1);
    if (!zt_grad_build(g, g->table, &(struct zt_grad_request){ from, k->given_count, wanted, count }, grads, err))
        return false;
    for (int i = 0; i < count; i++)
        grads[i] = grads[i] >= 0 ? grads[i] : add_zeros(g, wanted[i]);
    g->outputs = grads;
    g->output_count = count;
    return zt_graph_prune(g, g->outputs, g->output_count, err);
}

/* The gradient graph of a branch whose captured inputs are first..first+inputs-1 of the node. */
static const struct zt_graph *make_back(const struct back *k, const struct zt_graph *branch, int first,
                                        struct zt_err *err) {
    struct zt_graph *g = zt_graph_clone_in(zt_grad_graph(k->b)->arena, branch);
    int *wanted = ZT_NEW_N(g->arena, int, branch->input_count + 1), count = 0;
    for (int i = 0; i < k->wanted_count; i++)
        if (k->wanted[i] >= first && k->wanted[i] < first + branch->input_count)
            wanted[count++] = g->inputs[k->wanted[i] - first];
    const bool ok = differentiate(k, g, wanted, count, err);
    if (ok)
        zt_graph_settle(g);
    else
        zt_graph_destroy(g);
    return ok ? g : NULL;
}

static bool emit_back(const struct back *k, const struct zt_graph *const *graph, int *out) {
    struct zt_arena *arena = zt_grad_graph(k->b)->arena;
    const struct zt_node *n = zt_grad_graph(k->b)->nodes[k->node];
    int *in = ZT_NEW_N(arena, int, n->in_count + k->given_count);
    memcpy(in, n->in, (size_t)n->in_count * sizeof *in);
    for (int i = 0; i < k->given_count; i++)
        in[n->in_count + i] = zt_grad_out(k->b, k->node, k->given[i]);
    const struct zt_attr attrs[] = {
        { .name = "then_gradient", .type = ZT_ATTR_GRAPH, .graph = graph[ZT_THEN] },
        { .name = "else_gradient", .type = ZT_ATTR_GRAPH, .graph = graph[ZT_ELSE] },
    };
    return zt_emit_node(
        k->b, &(struct zt_emission){ "IfRunGrad", "ztrain", in, n->in_count + k->given_count, n, attrs, ZT_BRANCHES },
        out, k->wanted_count);
}

bool zt_if_gradient(struct zt_grad *b, int node, struct zt_err *err) {
    struct zt_arena *arena = zt_grad_graph(b)->arena;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    const struct zt_graph *branch[ZT_BRANCHES], *graph[ZT_BRANCHES];
    struct back k = { .b = b, .node = node };
    zt_if_graphs(n, false, branch);
    k.given = ZT_NEW_N(arena, int, n->out_count + 1);
    k.wanted = ZT_NEW_N(arena, int, n->in_count + 1);
    for (int i = 0; i < n->out_count; i++)
        if (zt_grad_out(b, node, i) >= 0)
            k.given[k.given_count++] = i;
    for (int i = 1; i < n->in_count; i++)
        if (zt_grad_wanted(b, node, i))
            k.wanted[k.wanted_count++] = i;
    graph[ZT_THEN] = make_back(&k, branch[ZT_THEN], 1, err);
    graph[ZT_ELSE] = graph[ZT_THEN] ? make_back(&k, branch[ZT_ELSE], 1 + branch[ZT_THEN]->input_count, err) : NULL;
    int *out = ZT_NEW_N(arena, int, k.wanted_count + 1);
    if (!graph[ZT_ELSE] || !emit_back(&k, graph, out))
        return false;
    for (int i = 0; i < k.wanted_count; i++)
        zt_grad_give(b, node, k.wanted[i], out[i]);
    return true;
}
