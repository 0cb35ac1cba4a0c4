#include "graph/passes/eval_fast.h"

#include "graph/ir/op.h"
#include "graph/passes/assign/assign.h"

#include <stdlib.h>

static void fill_views(const struct zt_graph *g, const int *ids, int count, struct zt_view *to) {
    for (int i = 0; i < count; i++) {
        const struct zt_value *v = ids[i] >= 0 ? g->values[ids[i]] : NULL;
        to[i] = v ? (struct zt_view){ v->dtype, v->shape, (void *)v->data, v->layout } : (struct zt_view){ 0 };
    }
}

bool zt_eval_run_kernel(const struct zt_graph *g, int node, enum zt_backend backend, const struct zt_call *with,
                        struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    struct zt_view *views = zt_calloc((size_t)(n->in_count + n->out_count), sizeof *views);
    fill_views(g, n->in, n->in_count, views);
    fill_views(g, n->out, n->out_count, views + n->in_count);
    const struct zt_call call = { .graph = g,
                                  .node = n,
                                  .in = views,
                                  .out = views + n->in_count,
                                  .in_count = n->in_count,
                                  .out_count = n->out_count,
                                  .state = with->state,
                                  .workspace = with->workspace,
                                  .threads = with->threads,
                                  .random = with->random };
    const bool ok = n->op->kernel[backend].run(&call, err);
    free(views);
    return ok;
}

/* The node alone in a graph, whose values stand for those of the run. */
struct alone {
    struct zt_graph *g;
    int *out; /* by output of the node: its value in `g`, -1: omitted */
    int out_count;
};

bool zt_eval_is_fast(const struct zt_graph *g, int node) {
    const double least = 1 << 18; /* FLOPs or elements, which reference kernels compute in about a millisecond */
    return zt_op_work(g, node) >= least && zt_op_takes(g, node, ZT_CPU);
}

static int stand_for(struct zt_graph *to, const struct zt_value *v) {
    const int known = zt_graph_find(to, v->name);
    if (known >= 0)
        return known;
    const int id = zt_graph_add_value(to, v->name, v->dtype, &v->shape);
    to->values[id]->origin = ZT_FROM_INPUT;
    to->values[id]->data = v->data;
    return id;
}

static bool copy_node(const struct zt_graph *g, int node, struct alone *to, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    int *in = ZT_NEW_N(to->g->arena, int, n->in_count);
    for (int i = 0; i < n->in_count; i++)
        in[i] = n->in[i] >= 0 ? stand_for(to->g, g->values[n->in[i]]) : -1;
    to->out_count = n->out_count;
    to->out = ZT_NEW_N(to->g->arena, int, n->out_count);
    for (int i = 0; i < n->out_count; i++)
        to->out[i] = n->out[i] >= 0 ? zt_graph_add_value(to->g, g->values[n->out[i]]->name, g->values[n->out[i]]->dtype,
                                                         &g->values[n->out[i]]->shape)
                                    : -1;
    const int copy = zt_graph_add_node(to->g, &(struct zt_node_spec){ n->name, n->op_type, n->domain, n->opset, in,
                                                                      n->in_count, to->out, n->out_count });
    for (int i = 0; i < n->attr_count; i++)
        zt_node_set_attr(to->g, copy, &n->attr[i]);
    to->g->nodes[copy]->captured = n->captured;
    to->g->nodes[copy]->phase = n->phase;
    return zt_op_resolve(g->table, to->g, copy, err) && zt_graph_index(to->g, err);
}

/* Inputs lie where the run has them, plain outputs where it wants them, and all else in the arena of `to`. */
static void place(const struct zt_graph *g, int node, struct alone *to) {
    for (int i = 0; i < to->out_count; i++)
        if (to->out[i] >= 0)
            to->g->values[to->out[i]]->data = g->values[g->nodes[node]->out[i]]->data;
    for (int v = 0; v < to->g->value_count; v++)
        if (!to->g->values[v]->data)
            to->g->values[v]->data = zt_arena_alloc(to->g->arena, (size_t)zt_value_bytes(to->g->values[v]));
}

static bool run_prepared(const struct zt_graph *g, int node, const struct zt_prepared *p, const struct zt_call *with,
                         struct zt_err *err) {
    struct zt_call call = *with;
    call.state = p->state;
    call.workspace = p->workspace_bytes ? zt_arena_alloc(g->arena, p->workspace_bytes) : NULL;
    return zt_eval_run_kernel(g, node, (enum zt_backend)g->nodes[node]->backend, &call, err);
}

bool zt_eval_fast_node(const struct zt_graph *g, int node, const struct zt_random *random, int threads,
                       struct zt_err *err) {
    struct alone alone = { .g = zt_graph_create(g->name) };
    struct zt_prepared *prepared = NULL;
    bool ok = copy_node(g, node, &alone, err) &&
              zt_pass_assign(alone.g, &(struct zt_assign_options){ g->table, ZT_CPU, threads, NULL }, alone.out,
                             alone.out_count, &prepared, err);
    if (ok)
        place(g, node, &alone);
    for (int i = 0; ok && i < alone.g->node_count; i++)
        ok = run_prepared(alone.g, i, &prepared[i], &(struct zt_call){ .threads = threads, .random = random }, err);
    zt_assign_release(alone.g, prepared);
    zt_graph_destroy(alone.g);
    return ok;
}
