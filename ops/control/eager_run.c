/* Parts of a training graph in which sizes depend on data (graph/passes/data_sizes.h), run node by node.
 *
 *     ztrain.EagerRun(x..) -> y.., kept              y = body(x), shapes inferred as it goes
 *     ztrain.EagerRunGrad(x.., kept, dy..) -> dx..   body(x) once more, then what autograd makes of it for these sizes
 *
 * kept, of the training form, holds values of the body one behind the other, as many as fit: the second time these are
 * read, and only the others are computed.
 *
 * The body is a graph whose inputs are the node's and whose outputs have the shapes that are planned; between them
 * sizes change from step to step. Nodes of it with much work run on the CPU's fast kernels, all others on the reference
 * kernels. Its values are in the node's workspace, which is planned for the largest possible sizes. */
#include "graph/passes/eval.h"
#include "graph/passes/grad.h"
#include "graph/passes/infer.h"
#include "ops/control/body.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/training_form.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct zt_graph *body_of(const struct zt_node *n) {
    return zt_node_attr(n, "body")->graph;
}

/* The size of the last output, 0: the node has none. */
static int64_t kept_bytes(const struct zt_node *n) {
    return zt_attr_int(n, "kept", 0);
}

/* ---- shape rules ---- */

static bool check_inputs(const struct zt_graph *g, int node, const struct zt_graph *body, struct zt_err *err) {
    for (int i = 0; i < body->input_count; i++) {
        const struct zt_value *v = zt_in(g, node, i), *wanted = body->values[body->inputs[i]];
        if (!v || v->dtype != wanted->dtype || !zt_shape_equal(&v->shape, &wanted->shape))
            return zt_node_fail(g, node, err, "input %d is not what its body reads", i);
    }
    return true;
}

static bool run_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_graph *body = body_of(g->nodes[node]);
    const int64_t kept = kept_bytes(g->nodes[node]);
    if (g->nodes[node]->in_count != body->input_count || g->nodes[node]->out_count != body->output_count + (kept > 0))
        return zt_node_fail(g, node, err, "has other inputs and outputs than its body");
    if (kept)
        zt_set_out(g, node, body->output_count, ZT_UINT8, &(struct zt_shape){ 1, { kept } });
    for (int i = 0; i < body->output_count; i++) {
        const struct zt_value *v = body->values[body->outputs[i]];
        zt_set_out(g, node, i, v->dtype, &v->shape);
    }
    return check_inputs(g, node, body, err);
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    int count;
    const int64_t *wanted = zt_attr_ints(g->nodes[node], "wanted", &count);
    for (int k = 0; k < count; k++)
        zt_set_out(g, node, k, zt_in(g, node, (int)wanted[k])->dtype, &zt_in(g, node, (int)wanted[k])->shape);
    return check_inputs(g, node, body_of(g->nodes[node]), err);
}

/* ---- gradient of the body ---- */

/* Appends the backward nodes for the sizes of the body `g` of node n, whose gradients dy have the ids dy[..] in g;
 * grads: by wanted input. */
static bool build_back(struct zt_graph *g, const struct zt_node *n, const int *dy, int *grads, struct zt_err *err) {
    int given_count, wanted_count;
    const int64_t *given = zt_attr_ints(n, "given", &given_count);
    const int64_t *wanted = zt_attr_ints(n, "wanted", &wanted_count);
    struct zt_cotangent *from = ZT_NEW_N(g->arena, struct zt_cotangent, given_count + 1);
    int *of = ZT_NEW_N(g->arena, int, wanted_count + 1);
    for (int k = 0; k < given_count; k++)
        from[k] = (struct zt_cotangent){ g->outputs[given[k]], dy[k] };
    for (int k = 0; k < wanted_count; k++)
        of[k] = g->inputs[wanted[k]];
    return zt_grad_build(g, g->table, &(struct zt_grad_request){ from, given_count, of, wanted_count }, grads, err);
}

/* The gradients that a node is given, as inputs of its body. */
static int *add_given(struct zt_graph *g, const struct zt_node *n) {
    int count;
    const int64_t *given = zt_attr_ints(n, "given", &count);
    int *dy = ZT_NEW_N(g->arena, int, count + 1);
    for (int k = 0; k < count; k++) {
        const struct zt_value *y = g->values[g->outputs[given[k]]];
        dy[k] = zt_graph_add_value(g, "gradient", y->dtype, &y->shape);
        g->values[dy[k]]->origin = ZT_FROM_INPUT;
    }
    return dy;
}

/* ---- the body at its largest sizes ---- */

static bool bound_body(struct zt_graph *g, struct zt_err *err) {
    return zt_graph_index(g, err) && zt_pass_infer_bounds(g, 0, NULL, ZT_BODY_FOLD, err);
}

/* Infers the body, and what the gradient of node n needs, for the largest sizes. *forward: the nodes of the body. */
static bool bound_run(struct zt_graph *g, const struct zt_node *n, int *forward, struct zt_err *err) {
    if (!bound_body(g, err) || !zt_graph_sort(g, err))
        return false;
    *forward = g->node_count;
    if (!zt_node_attr(n, "given"))
        return true;
    int *grads = ZT_NEW_N(g->arena, int, n->out_count + 1);
    return build_back(g, n, add_given(g, n), grads, err) && zt_pass_infer_bounds(g, *forward, NULL, ZT_BODY_FOLD, err);
}

/* ---- training form ---- */

static bool trains_otherwise(const struct zt_graph *body, int node) {
    const struct zt_op *op = body->nodes[node]->op;
    return op && op->flags & ZT_OP_TRAINS_OTHERWISE;
}

/* Training forms are written for inferred nodes: these get the largest sizes, which each run replaces. */
static bool train_nodes(struct zt_graph *to, const struct zt_graph *most, const struct zt_train_options *options,
                        struct zt_err *err) {
    const int nodes = to->node_count;
    for (int v = 0; v < to->value_count; v++) {
        to->values[v]->dtype = most->values[v]->dtype;
        to->values[v]->shape = most->values[v]->shape;
    }
    for (int n = 0; n < nodes; n++)
        if (trains_otherwise(to, n) && !to->nodes[n]->op->train(to, n, options, err))
            return false;
    return true;
}

/* Dropout drops; all other nodes of a body run in their plain forms, whose gradients compute what they need. */
static bool train_body(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    const struct zt_graph *body = body_of(g->nodes[node]);
    bool any = false;
    for (int n = 0; n < body->node_count; n++)
        any |= trains_otherwise(body, n);
    if (!any)
        return true;
    struct zt_graph *most = zt_graph_clone(body), *to = zt_graph_clone_in(g->arena, body);
    const bool good = bound_body(most, err) && zt_graph_index(to, err) && train_nodes(to, most, options, err);
    zt_graph_settle(to);
    zt_graph_destroy(most);
    zt_node_set_attr(g, node, &(struct zt_attr){ .name = "body", .type = ZT_ATTR_GRAPH, .graph = to });
    return good;
}

static int64_t tensor_bytes(const struct zt_graph *g, const struct zt_node *n) {
    int64_t bytes = 0;
    for (int i = 0; i < n->in_count; i++)
        bytes += n->in[i] >= 0 ? zt_value_bytes(g->values[n->in[i]]) : 0;
    for (int i = 0; i < n->out_count; i++)
        bytes += n->out[i] >= 0 ? zt_value_bytes(g->values[n->out[i]]) : 0;
    return bytes;
}

/* Adds the output in which values stay for the gradient: all that there can be, at most as many bytes as the node reads
 * and gives. That bounds what the plan grows by, also where each of many nodes could take everything. */
static bool keep_values(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_graph *most = zt_graph_clone(body_of(g->nodes[node]));
    const int64_t limit = tensor_bytes(g, g->nodes[node]);
    const bool good = bound_body(most, err) && zt_graph_sort(most, err);
    const int64_t bytes = good ? (int64_t)zt_eval_kept_bytes(most, most->node_count, (size_t)limit) : 0;
    zt_graph_destroy(most);
    if (!good || !bytes)
        return good;
    zt_node_set_attr(g, node, &(struct zt_attr){ .name = "kept", .type = ZT_ATTR_INT, .i = bytes });
    return zt_train_rewrite(g, node, g->nodes[node]->op, g->nodes[node]->out_count + 1, err);
}

static bool run_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) {
    return train_body(g, node, options, err) &&
           (options->evaluation || kept_bytes(g->nodes[node]) || keep_values(g, node, err));
}

/* ---- memory ---- */

/* What a prepared node keeps: how its workspace is shared out. */
struct plan {
    struct zt_eval_room room;
    bool fast; /* bodies run on the CPU's fast kernels */
};

static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    struct zt_graph *g = zt_graph_clone(body_of(n));
    struct plan *plan = p->state = zt_calloc(1, sizeof *plan);
    int forward = 0;
    const bool good = bound_run(g, n, &forward, err) && zt_eval_measure(g, p->threads, &plan->room, err);
    const size_t kept = zt_eval_kept_bytes(g, forward, (size_t)kept_bytes(n));
    plan->room.arena = zt_arena_object(plan->room.arena - kept + zt_arena_bytes(g->arena));
    p->workspace_bytes = plan->room.arena;
    zt_graph_destroy(g);
    return good;
}

static bool prepare_fast(struct zt_prepare *p, struct zt_err *err) {
    if (!prepare(p, err))
        return false;
    struct plan *plan = p->state;
    plan->fast = true;
    p->workspace_bytes += plan->room.fast;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL; /* plain */
    return true;
}

/* ---- running ---- */

/* A copy of the body with its inputs, in the workspace; free with finish(). */
struct running {
    struct zt_arena *arena;
    struct zt_graph *g;
    struct zt_eval *eval;
    int forward; /* nodes of the forward run */
};

static void finish(struct running *r) {
    zt_eval_destroy(r->eval);
    zt_graph_destroy(r->g);
    zt_arena_destroy(r->arena);
}

/* Runs the body; its outputs must have the shapes that are planned. kept: of the node, NULL: nothing is. */
static bool start(const struct zt_call *call, const struct zt_eval_kept *kept, struct running *r, struct zt_err *err) {
    const struct zt_graph *body = body_of(call->node);
    const struct plan *plan = call->state;
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    *r = (struct running){ .arena = zt_arena_create() };
    zt_arena_lend(r->arena, call->workspace, plan->room.arena);
    r->g = zt_graph_clone_in(r->arena, body);
    r->eval = zt_eval_create_within(r->g, call->random, call->threads);
    if (plan->fast)
        zt_eval_use_fast(r->eval, (char *)call->workspace + plan->room.arena, plan->room.fast);
    zt_eval_keep(r->eval, kept);
    for (int i = 0; i < body->input_count; i++)
        zt_eval_feed(r->eval, r->g->inputs[i],
                     &(struct zt_tensor){ call->in[i].dtype, call->in[i].shape, call->in[i].data });
    if (!zt_graph_index(r->g, err) || !zt_eval_run(r->eval, 0, r->g->node_count, err))
        return false;
    zt_eval_keep(r->eval, &(struct zt_eval_kept){ 0 });
    r->forward = r->g->node_count;
    for (int i = 0; i < body->output_count; i++) {
        const struct zt_value *v = r->g->values[r->g->outputs[i]], *planned = body->values[body->outputs[i]];
        if (v->dtype != planned->dtype || !zt_shape_equal(&v->shape, &planned->shape))
            return zt_call_fail(call, err, "\"%s\" has shape %s for these data, but %s was planned", v->name,
                                zt_shape_text(&v->shape, s), zt_shape_text(&planned->shape, t));
    }
    return true;
}

static void copy_out(const struct zt_call *call, int out, const struct zt_value *v) {
    const size_t bytes = (size_t)zt_shape_count(&call->out[out].shape) * zt_dtype_bytes(call->out[out].dtype);
    if (call->out[out].data && bytes && v)
        memcpy(call->out[out].data, v->data, bytes);
    else if (call->out[out].data)
        memset(call->out[out].data, 0, bytes);
}

static size_t kept_size(const struct zt_view *kept) {
    return kept && kept->data ? (size_t)zt_shape_count(&kept->shape) : 0;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    struct running r;
    const int outputs = body_of(call->node)->output_count;
    const struct zt_view *kept = outputs < call->out_count ? &call->out[outputs] : NULL;
    const bool good = start(call, &(struct zt_eval_kept){ kept ? kept->data : NULL, kept_size(kept), false }, &r, err);
    for (int i = 0; good && i < outputs; i++)
        copy_out(call, i, r.g->values[r.g->outputs[i]]);
    finish(&r);
    return good;
}

/* Appends the backward nodes for the sizes of this run, and runs them. */
static bool differentiate(const struct zt_call *call, struct running *r, int *grads, struct zt_err *err) {
    const int *dy = add_given(r->g, call->node), first = r->g->input_count + (kept_bytes(call->node) > 0);
    for (int k = 0; k < call->in_count - first; k++)
        r->g->values[dy[k]]->data = call->in[first + k].data;
    return build_back(r->g, call->node, dy, grads, err) && zt_eval_run(r->eval, r->forward, r->g->node_count, err);
}

/* Runs the backward graph. Inputs without a path for these data have the gradient 0. */
static bool run_back(const struct zt_call *call, struct zt_err *err) {
    struct running r;
    int *grads = zt_calloc((size_t)call->out_count + 1, sizeof *grads);
    const struct zt_view *kept = kept_bytes(call->node) ? &call->in[body_of(call->node)->input_count] : NULL;
    const struct zt_eval_kept from = { kept ? (void *)kept->data : NULL, kept_size(kept), true };
    const bool good = start(call, &from, &r, err) && differentiate(call, &r, grads, err);
    for (int k = 0; good && k < call->out_count; k++)
        copy_out(call, k, grads[k] < 0 ? NULL : r.g->values[grads[k]]);
    finish(&r);
    free(grads);
    return good;
}

/* ---- gradient rule ---- */

static bool run_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    struct zt_arena *arena = zt_grad_graph(b)->arena;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int *in = ZT_NEW_N(arena, int, n->in_count + n->out_count + 1), *out = ZT_NEW_N(arena, int, n->in_count + 1);
    int64_t *given = ZT_NEW_N(arena, int64_t, n->out_count + 1), *wanted = ZT_NEW_N(arena, int64_t, n->in_count + 1);
    const int outputs = body_of(n)->output_count;
    int given_count = 0, wanted_count = 0, in_count = n->in_count;
    memcpy(in, n->in, (size_t)n->in_count * sizeof *in);
    if (outputs < n->out_count)
        in[in_count++] = n->out[outputs];
    for (int i = 0; i < outputs; i++)
        if (zt_grad_out(b, node, i) >= 0) {
            in[in_count++] = zt_grad_out(b, node, i);
            given[given_count++] = i;
        }
    for (int i = 0; i < n->in_count; i++)
        if (zt_grad_wanted(b, node, i))
            wanted[wanted_count++] = i;
    const struct zt_attr attrs[] = {
        { .name = "given", .type = ZT_ATTR_INTS, .count = given_count, .ints = given },
        { .name = "wanted", .type = ZT_ATTR_INTS, .count = wanted_count, .ints = wanted },
    };
    if (!wanted_count)
        return true;
    zt_emit_node(b, &(struct zt_emission){ "EagerRunGrad", "ztrain", in, in_count, n, attrs, 2 }, out, wanted_count);
    for (int k = 0; k < wanted_count; k++)
        zt_grad_give(b, node, (int)wanted[k], out[k]);
    return true;
}

/* ---- rows ---- */

/* Of the nodes whose sizes are known from the start. */
static double flops(const struct zt_graph *g, int node) {
    double sum = 0;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        sum += zt_in(g, node, i) ? (double)zt_shape_count(&zt_in(g, node, i)->shape) : 0;
    return sum;
}

static const struct zt_attr_spec run_attrs[] = { { "body", ZT_ATTR_GRAPH, true }, { "kept", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec grad_attrs[] = { { "body", ZT_ATTR_GRAPH, true },
                                                  { "kept", ZT_ATTR_INT },
                                                  { "given", ZT_ATTR_INTS, true },
                                                  { "wanted", ZT_ATTR_INTS, true },
                                                  { 0 } };

const struct zt_op zt_op_eager_run = {
    .name = "EagerRun",
    .domain = "ztrain",
    .since = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC | ZT_OP_NO_RECOMPUTE,
    .attrs = run_attrs,
    .infer = run_infer,
    .train = run_train,
    .grad = run_grad,
    .flops = flops,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = run, .release = free },
                [ZT_CPU] = { .prepare = prepare_fast, .run = run, .release = free } },
};
const struct zt_op zt_op_eager_run_grad = {
    .name = "EagerRunGrad",
    .domain = "ztrain",
    .since = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC,
    .attrs = grad_attrs,
    .infer = grad_infer,
    .flops = flops,
    .kernel = { [ZT_REF] = { .prepare = prepare, .run = run_back, .release = free },
                [ZT_CPU] = { .prepare = prepare_fast, .run = run_back, .release = free } },
};
