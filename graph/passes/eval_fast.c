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
    struct zt_arena *data; /* of what the kernels need besides */
    int *out;              /* by output of the node: its value in `g`, -1: omitted */
    int out_count;
    struct zt_prepared *prepared; /* by node of `g` */
};

bool zt_eval_is_fast(const struct zt_graph *g, int node) {
    const double least = 1 << 16; /* FLOPs or elements, which reference kernels compute in a quarter of a millisecond */
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

static bool open_alone(const struct zt_graph *g, int node, int threads, struct alone *to, struct zt_err *err) {
    *to = (struct alone){ .g = zt_graph_create(g->name), .data = zt_arena_create() };
    return copy_node(g, node, to, err) &&
           zt_pass_assign(to->g, &(struct zt_assign_options){ g->table, ZT_CPU, threads, NULL }, to->out, to->out_count,
                          &to->prepared, err);
}

static void close_alone(struct alone *alone) {
    zt_assign_release(alone->g, alone->prepared);
    zt_graph_destroy(alone->g);
    zt_arena_destroy(alone->data);
}

/* Whether the run has memory for the value: an input, or an output in plain order. */
static bool is_of_run(const struct alone *alone, int value) {
    bool of = alone->g->values[value]->origin == ZT_FROM_INPUT;
    for (int i = 0; !of && i < alone->out_count; i++)
        of = alone->out[i] == value;
    return of;
}

static void place(const struct zt_graph *g, int node, struct alone *alone) {
    for (int i = 0; i < alone->out_count; i++)
        if (alone->out[i] >= 0)
            alone->g->values[alone->out[i]]->data = g->values[g->nodes[node]->out[i]]->data;
    for (int v = 0; v < alone->g->value_count; v++)
        if (!is_of_run(alone, v))
            alone->g->values[v]->data = zt_arena_block(alone->data, (size_t)zt_value_bytes(alone->g->values[v]));
}

static bool run_prepared(struct alone *alone, int node, const struct zt_eval_fast *how, struct zt_err *err) {
    const struct zt_prepared *p = &alone->prepared[node];
    const struct zt_call call = { .state = p->state,
                                  .workspace =
                                      p->workspace_bytes ? zt_arena_block(alone->data, p->workspace_bytes) : NULL,
                                  .threads = how->threads,
                                  .random = how->random };
    return zt_eval_run_kernel(alone->g, node, (enum zt_backend)alone->g->nodes[node]->backend, &call, err);
}

bool zt_eval_fast_node(const struct zt_graph *g, int node, const struct zt_eval_fast *how, struct zt_err *err) {
    struct alone alone;
    bool ok = open_alone(g, node, how->threads, &alone, err);
    zt_arena_lend(alone.data, how->memory, how->bytes);
    if (ok)
        place(g, node, &alone);
    for (int i = 0; ok && i < alone.g->node_count; i++)
        ok = run_prepared(&alone, i, how, err);
    close_alone(&alone);
    return ok;
}

bool zt_eval_fast_bytes(const struct zt_graph *g, int node, int threads, size_t *bytes, struct zt_err *err) {
    struct alone alone;
    const bool ok = open_alone(g, node, threads, &alone, err);
    *bytes = ok ? zt_arena_bytes(alone.data) : 0;
    for (int v = 0; ok && v < alone.g->value_count; v++)
        *bytes += is_of_run(&alone, v) ? 0 : zt_arena_object((size_t)zt_value_bytes(alone.g->values[v]));
    for (int i = 0; ok && i < alone.g->node_count; i++)
        *bytes += alone.prepared[i].workspace_bytes ? zt_arena_object(alone.prepared[i].workspace_bytes) : 0;
    close_alone(&alone);
    return ok;
}
