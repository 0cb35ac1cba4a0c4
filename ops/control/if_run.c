/* The rows and kernels of IfRun and IfRunGrad (ops/control/if.h). The kernels are the same for every back end, which
 * gives the kernels of the nodes in the branches. */
#include "ops/control/if.h"

#include "base/align.h"
#include "ops/control/loop_iteration.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- infer ---- */

/* The node's inputs behind the condition are those of the branches. */
static bool check_inputs(const struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_graph *branch[ZT_BRANCHES];
    zt_if_graphs(g->nodes[node], false, branch);
    for (int k = 0, at = 1; k < ZT_BRANCHES; k++)
        for (int i = 0; i < branch[k]->input_count; i++, at++) {
            const struct zt_value *v = zt_in(g, node, at), *wanted = branch[k]->values[branch[k]->inputs[i]];
            if (!v || v->dtype != wanted->dtype || !zt_shape_equal(&v->shape, &wanted->shape))
                return zt_node_fail(g, node, err, "input %d is not what its branch reads", at);
        }
    return true;
}

static bool run_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_graph *branch[ZT_BRANCHES];
    zt_if_graphs(g->nodes[node], false, branch);
    for (int i = 0; i < branch[ZT_THEN]->output_count; i++) {
        const struct zt_value *v = branch[ZT_THEN]->values[branch[ZT_THEN]->outputs[i]];
        zt_set_out(g, node, i, v->dtype, &v->shape);
    }
    return check_inputs(g, node, err);
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_graph *graph[ZT_BRANCHES];
    zt_if_graphs(g->nodes[node], true, graph);
    for (int k = 0, out = 0; k < ZT_BRANCHES; k++)
        for (int i = 0; i < graph[k]->output_count; i++, out++) {
            const struct zt_value *v = graph[k]->values[graph[k]->outputs[i]];
            zt_set_out(g, node, out, v->dtype, &v->shape);
        }
    return check_inputs(g, node, err);
}

static double flops_of(const struct zt_graph *body) {
    double flops = 0;
    for (int n = 0; n < body->node_count; n++)
        flops += zt_op_flops(body, n);
    return flops;
}

/* Of the branch that takes more. */
static double most_flops(const struct zt_node *n, bool gradient) {
    const struct zt_graph *graph[ZT_BRANCHES];
    zt_if_graphs(n, gradient, graph);
    const double a = flops_of(graph[ZT_THEN]), b = flops_of(graph[ZT_ELSE]);
    return a > b ? a : b;
}

static double run_flops(const struct zt_graph *g, int node) {
    return most_flops(g->nodes[node], false);
}

static double grad_flops(const struct zt_graph *g, int node) {
    return most_flops(g->nodes[node], true);
}

/* ---- kernels ---- */

/* State of a prepared node. */
struct branches {
    struct zt_loop_iteration *of[ZT_BRANCHES]; /* prepared to run; of a gradient: back */
    int inputs[ZT_BRANCHES];                   /* captured values of the branch */
    int inputs_of_run;                         /* of the graph that runs: with cotangents, the larger one */
};

static void release(void *state) {
    struct branches *s = state;
    for (int k = 0; s && k < ZT_BRANCHES; k++)
        zt_loop_iteration_destroy(s->of[k]);
    free(s);
}

/* Addresses of inputs stand in front of the branch's own workspace. */
static size_t address_bytes(const struct branches *s) {
    return zt_align_64((size_t)(s->inputs_of_run + 1) * sizeof(void *));
}

static bool prepare(struct zt_prepare *p, bool gradient, struct zt_err *err) {
    const struct zt_graph *branch[ZT_BRANCHES], *graph[ZT_BRANCHES];
    struct branches *s = zt_calloc(1, sizeof *s);
    size_t most = 0;
    zt_if_graphs(p->graph->nodes[p->node], false, branch);
    zt_if_graphs(p->graph->nodes[p->node], gradient, graph);
    for (int k = 0; k < ZT_BRANCHES; k++) {
        bool *stays = zt_calloc((size_t)graph[k]->input_count + 1, sizeof *stays);
        s->of[k] = zt_loop_iteration_create(graph[k], stays, p->backend, p->threads, err);
        free(stays);
        if (!s->of[k]) {
            release(s);
            return false;
        }
        s->inputs[k] = branch[k]->input_count;
        s->inputs_of_run = graph[k]->input_count > s->inputs_of_run ? graph[k]->input_count : s->inputs_of_run;
        most = zt_loop_iteration_bytes(s->of[k]) > most ? zt_loop_iteration_bytes(s->of[k]) : most;
    }
    p->workspace_bytes = address_bytes(s) + most;
    p->state = s;
    return true;
}

static bool prepare_run(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}

static bool prepare_grad(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

static int chosen(const struct zt_call *call) {
    return zt_load_int(call->in[0].dtype, call->in[0].data, 0) ? ZT_THEN : ZT_ELSE;
}

/* Runs the branch on its captured values and the inputs behind those of both branches, and copies its results to the
 * outputs from `out` on. */
static bool run_chosen(const struct zt_call *call, int branch, int out, int out_count, struct zt_err *err) {
    const struct branches *s = call->state;
    const void **in = call->workspace;
    const int first = branch == ZT_THEN ? 1 : 1 + s->inputs[ZT_THEN], all = 1 + s->inputs[ZT_THEN] + s->inputs[ZT_ELSE];
    for (int i = 0; i < s->inputs[branch]; i++)
        in[i] = call->in[first + i].data;
    for (int i = all; i < call->in_count; i++)
        in[s->inputs[branch] + i - all] = call->in[i].data;
    struct zt_loop_at *at =
        zt_loop_iteration_begin(s->of[branch], call, (char *)call->workspace + address_bytes(s), in, err);
    if (!at || !zt_loop_iteration_run(at, in, err))
        return false;
    for (int i = 0; i < out_count; i++) {
        const struct zt_view *to = &call->out[out + i];
        if (to->data && zt_view_bytes(to))
            memcpy(to->data, zt_loop_iteration_out(at, in, i), zt_view_bytes(to));
    }
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    return run_chosen(call, chosen(call), 0, call->out_count, err);
}

static bool run_back(const struct zt_call *call, struct zt_err *err) {
    const struct zt_graph *graph[ZT_BRANCHES];
    const int branch = chosen(call);
    zt_if_graphs(call->node, true, graph);
    const int count[ZT_BRANCHES] = { graph[ZT_THEN]->output_count, graph[ZT_ELSE]->output_count };
    const int first[ZT_BRANCHES] = { 0, count[ZT_THEN] }, other = branch == ZT_THEN ? ZT_ELSE : ZT_THEN;
    for (int i = first[other]; i < first[other] + count[other]; i++)
        if (call->out[i].data)
            memset(call->out[i].data, 0, zt_view_bytes(&call->out[i]));
    return run_chosen(call, branch, first[branch], count[branch], err);
}

/* ---- rows ---- */

static const struct zt_attr_spec run_attrs[] = { { "then_branch", ZT_ATTR_GRAPH, true },
                                                 { "else_branch", ZT_ATTR_GRAPH, true },
                                                 { 0 } };
static const struct zt_attr_spec grad_attrs[] = { { "then_branch", ZT_ATTR_GRAPH, true },
                                                  { "else_branch", ZT_ATTR_GRAPH, true },
                                                  { "then_gradient", ZT_ATTR_GRAPH, true },
                                                  { "else_gradient", ZT_ATTR_GRAPH, true },
                                                  { 0 } };

const struct zt_op zt_op_if_run = {
    .name = "IfRun",
    .domain = "ztrain",
    .since = 1,
    .min_in = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC,
    .in_types = { ZT_BIT(ZT_BOOL), ZT_ANY_TYPE },
    .attrs = run_attrs,
    .no_grad_in = 1 << 0,
    .infer = run_infer,
    .grad = zt_if_gradient,
    .flops = run_flops,
    .kernel = { [ZT_REF] = { .prepare = prepare_run, .run = run, .release = release },
                [ZT_CPU] = { .prepare = prepare_run, .run = run, .release = release } },
};
const struct zt_op zt_op_if_run_grad = {
    .name = "IfRunGrad",
    .domain = "ztrain",
    .since = 1,
    .min_in = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC,
    .in_types = { ZT_BIT(ZT_BOOL), ZT_ANY_TYPE },
    .attrs = grad_attrs,
    .infer = grad_infer,
    .flops = grad_flops,
    .kernel = { [ZT_REF] = { .prepare = prepare_grad, .run = run_back, .release = release },
                [ZT_CPU] = { .prepare = prepare_grad, .run = run_back, .release = release } },
};
