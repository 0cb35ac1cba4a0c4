/* Elementwise nodes that only each other read become one generated kernel on CUDA:
 *
 *     ztrain.FusedElementwise<steps>(x0, x1, ...) -> y
 *
 *         a = Add(x, bias)    t = Tanh(a)    y = Mul(t, s)          =>        y = FusedElementwise(x, bias, s)
 *
 * `steps` is a graph of the original nodes, resolved and inferred. Its first values are the inputs, then the results of
 * the nodes in their order, then values that the kernel does not read: constants of an expression, such as the bounds
 * of a Clip, and the input of CastLike that only names a type. All results have the shape of y; inputs are broadcast to
 * it.
 *
 * A node becomes a step only if all readers of its result are steps. The fusion therefore removes no value that the
 * backward phase, another stage, the loss, the optimizer or a statistic reads: nodes of the backward phase are readers,
 * and values that others than nodes read are outputs of the graph (parallel/schedule/program.c). Between steps a result
 * is rounded to the type in which its node stored it, so the bits stay. */
#include "graph/passes/fusion/fuse.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/pointwise.h"
#include "ops/kernel/shape.h"

#include <string.h>

enum {
    /* The most nodes from a step to the last one, because the step's inputs stay in memory until then. Sums of
     * gradients of many layers must not wait for each other. */
    NEAR = 2 * ZT_FUSED_STEPS,
    LOOK = 3, /* how many nodes is_settled follows upwards */
};

static const struct zt_graph *steps_of(const struct zt_node *n) {
    return zt_node_attr(n, "steps")->graph;
}

/* ---- the row ---- */

static bool infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_graph *steps = steps_of(g->nodes[node]);
    bool same = g->nodes[node]->in_count == steps->input_count;
    for (int i = 0; same && i < steps->input_count; i++)
        same = zt_in(g, node, i) && zt_in(g, node, i)->dtype == steps->values[i]->dtype &&
               zt_shape_equal(&zt_in(g, node, i)->shape, &steps->values[i]->shape);
    if (!same)
        return zt_node_fail(g, node, err, "its inputs are not those of its steps");
    const struct zt_value *y = steps->values[steps->outputs[0]];
    zt_set_out(g, node, 0, y->dtype, &y->shape);
    return true;
}

/* The last result has memory of its own as well, because a step may read an input whose memory y takes over. */
static bool ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_graph *steps = steps_of(call->node);
    struct zt_arena *arena = zt_arena_create();
    struct zt_view *of = ZT_NEW_N(arena, struct zt_view, steps->value_count), in[ZT_POINTWISE_INPUTS];
    bool ok = true;
    for (int v = 0; v < steps->value_count; v++) {
        const struct zt_value *value = steps->values[v];
        of[v] = (struct zt_view){ .dtype = value->dtype, .shape = value->shape, .data = (void *)value->data };
        if (v < steps->input_count)
            of[v].data = call->in[v].data;
        else if (value->producer >= 0)
            of[v].data = zt_arena_alloc(arena, (size_t)zt_value_bytes(value));
    }
    for (int n = 0; ok && n < steps->node_count; n++) {
        const struct zt_node *step = steps->nodes[n];
        struct zt_call part = *call;
        part.graph = steps;
        part.node = step;
        for (int i = 0; i < step->in_count; i++)
            in[i] = step->in[i] >= 0 ? of[step->in[i]] : (struct zt_view){ 0 };
        ok = zt_fuse_run(&part, step->op, &(struct zt_fused_call){ in, step->in_count, &of[step->out[0]], 1 }, err);
    }
    if (ok)
        memcpy(call->out[0].data, of[steps->outputs[0]].data, (size_t)zt_value_bytes(steps->values[steps->outputs[0]]));
    zt_arena_destroy(arena);
    return ok;
}

static bool describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_graph *steps = steps_of(g->nodes[node]);
    struct zt_fused_elementwise *fused = to;
    fused->inputs = steps->input_count;
    fused->steps = steps->node_count;
    for (int n = 0; n < steps->node_count; n++) {
        struct zt_fused_elementwise_step *step = &fused->step[n];
        if (!zt_pointwise_find(steps, n, &step->what))
            return zt_node_fail(steps, n, err, "there is no expression for it");
        step->dtype = zt_out(steps, n, 0)->dtype;
        for (int i = 0; i < step->what.inputs; i++)
            step->from[i] = steps->nodes[n]->in[i]; /* values are in the order of zt_fused_elementwise */
    }
    return true;
}

static const struct zt_attr_spec attrs[] = { { "steps", ZT_ATTR_GRAPH, true }, { 0 } };

const struct zt_op zt_op_fused_elementwise = {
    .name = "FusedElementwise",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, ZT_POINTWISE_INPUTS),
    .flags = ZT_OP_IN_PLACE | ZT_OP_LIGHT,
    .attrs = attrs,
    .infer = infer,
    .kernel = { [ZT_REF] = { .run = ref }, [ZT_CUDA] = ZT_CUDA_AS(pointwise, zt_cuda_any, describe) },
};

/* ---- the pattern ---- */

/* The nodes of a fused node: the last one, then others in any order, and how many of their inputs the kernel reads; and
 * the inputs of all of them. */
struct region {
    int node[ZT_FUSED_STEPS], reads[ZT_FUSED_STEPS], count;
    int in[ZT_POINTWISE_INPUTS], in_count;
};

static bool is_elementwise(const struct zt_node *n) {
    return n->op->kernel[ZT_CUDA].describe == zt_pointwise_describe && n->out_count == 1 && n->out[0] >= 0 &&
           n->in_count <= ZT_POINTWISE_INPUTS;
}

static bool holds(const struct region *r, int node) {
    int i = 0;
    while (i < r->count && r->node[i] != node)
        i++;
    return i < r->count;
}

/* Whether the node depends on parameters and constants only. Such nodes run once after an update, so they are not fused
 * with others. The search follows at most `nodes` nodes upwards; nodes beyond count as others. */
static bool is_settled(const struct zt_graph *g, int node, int nodes) {
    const struct zt_node *n = g->nodes[node];
    bool settled = nodes > 0 && n->in_count > 0 && !(n->op->flags & ZT_OP_RANDOM);
    for (int i = 0; settled && i < n->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        if (v && v->origin == ZT_FROM_NODE)
            settled = v->producer >= 0 && is_settled(g, v->producer, nodes - 1);
        else if (v)
            settled = v->origin != ZT_FROM_INPUT && !v->statistic;
    }
    return settled;
}

static bool list_input(struct region *r, int value) {
    int i = 0;
    while (i < r->in_count && r->in[i] != value)
        i++;
    if (i == ZT_POINTWISE_INPUTS)
        return false;
    r->in[i] = value;
    r->in_count += i == r->in_count;
    return true;
}

/* Lists the inputs of the region. Inputs that the expressions do not use stay values of the steps, for the reference
 * kernels (NegGrad). False where there are too many. */
static bool list_inputs(const struct zt_graph *g, struct region *r) {
    bool fit = true;
    r->in_count = 0;
    for (int k = r->count - 1; k >= 0; k--) {
        const struct zt_node *n = g->nodes[r->node[k]];
        for (int i = 0; fit && i < n->in_count; i++) {
            const struct zt_value *v = zt_in(g, r->node[k], i);
            const bool inside = v && v->origin == ZT_FROM_NODE && holds(r, v->producer);
            const bool unread = i >= r->reads[k] && v && (zt_value_is_constant(v) || n->op->flags & ZT_OP_CAST);
            if (v && !inside && !unread)
                fit = list_input(r, n->in[i]);
        }
    }
    return fit;
}

/* Adds the node to the region if the node has a kernel and the region has room. */
static bool add(const struct zt_graph *g, struct region *r, int node) {
    struct region larger = *r;
    struct zt_pointwise what;
    if (r->count == ZT_FUSED_STEPS || !zt_op_takes(g, node, ZT_CUDA) || !zt_pointwise_find(g, node, &what))
        return false;
    larger.node[larger.count] = node;
    larger.reads[larger.count++] = what.inputs;
    if (!list_inputs(g, &larger))
        return false;
    *r = larger;
    return true;
}

static bool may_join(const struct zt_graph *g, const struct region *r, int node) {
    const int last = r->node[0];
    return !holds(r, node) && last - node <= NEAR && is_elementwise(g->nodes[node]) &&
           zt_shape_equal(&zt_out(g, node, 0)->shape, &zt_out(g, last, 0)->shape) &&
           zt_fuse_read_only_by(g, g->nodes[node]->out[0], r->node, r->count) &&
           (is_settled(g, last, LOOK) || !is_settled(g, node, LOOK));
}

static bool grow(const struct zt_graph *g, struct region *r) {
    for (int k = 0; k < r->count; k++) {
        for (int i = 0; i < g->nodes[r->node[k]]->in_count; i++) {
            int from = zt_fuse_producer(g, r->node[k], i, NULL, false);
            if (from >= 0 && may_join(g, r, from) && add(g, r, from))
                return true;
        }
    }
    return false;
}

/* Makes an input of y's element count and bytes input 0, so that y may take over its memory. False where there is none
 * and input 0 has y's bytes. */
static bool put_first(const struct zt_graph *g, struct region *r) {
    const struct zt_value *y = zt_out(g, r->node[0], 0);
    for (int i = 0; i < r->in_count; i++) {
        const struct zt_value *v = g->values[r->in[i]];
        if (zt_shape_count(&v->shape) == zt_shape_count(&y->shape) && zt_value_bytes(v) == zt_value_bytes(y)) {
            const int first = r->in[0];
            r->in[0] = r->in[i];
            r->in[i] = first;
            return true;
        }
    }
    return zt_value_bytes(g->values[r->in[0]]) != zt_value_bytes(y);
}

/* Sorts the region to the graph's order, in which producers come before readers. */
static void put_in_order(struct region *r) {
    for (int k = 1; k < r->count; k++)
        for (int i = k; i > 0 && r->node[i] < r->node[i - 1]; i--) {
            const int node = r->node[i];
            r->node[i] = r->node[i - 1];
            r->node[i - 1] = node;
        }
}

/* The id in `steps` of a value of `g`, which is added if it is missing; original[i]: the id in `g` of value i. */
static int id_in(struct zt_graph *steps, int *original, const struct zt_graph *g, int value) {
    int i = 0;
    while (i < steps->value_count && original[i] != value)
        i++;
    if (i == steps->value_count) {
        original[i] = value;
        struct zt_value *v = steps->values[steps->value_count++] = ZT_NEW(g->arena, struct zt_value);
        *v = *g->values[value];
        v->id = i;
        v->producer = -1;
    }
    return i;
}

/* A copy of the sorted region as a graph in the arena of `g`. */
static const struct zt_graph *copy_steps(struct zt_graph *g, const struct region *r) {
    struct zt_graph *to = ZT_NEW(g->arena, struct zt_graph);
    const int room = ZT_POINTWISE_INPUTS * (r->count + 1) + r->count;
    int *original = ZT_NEW_N(g->arena, int, room);
    *to = (struct zt_graph){ .arena = g->arena, .name = g->name, .borrows_arena = true };
    to->values = ZT_NEW_N(g->arena, struct zt_value *, room);
    to->nodes = ZT_NEW_N(g->arena, struct zt_node *, r->count);
    to->inputs = ZT_NEW_N(g->arena, int, r->in_count);
    to->outputs = ZT_NEW(g->arena, int);
    for (int i = 0; i < r->in_count; i++)
        to->inputs[to->input_count++] = id_in(to, original, g, r->in[i]);
    for (int k = 0; k < r->count; k++)
        to->values[id_in(to, original, g, g->nodes[r->node[k]]->out[0])]->producer = k;
    to->outputs[to->output_count++] = to->value_count - 1;
    for (int k = 0; k < r->count; k++) {
        struct zt_node *n = to->nodes[to->node_count++] = ZT_NEW(g->arena, struct zt_node);
        *n = *g->nodes[r->node[k]];
        n->index = k;
        n->in = zt_arena_copy(g->arena, n->in, (size_t)n->in_count * sizeof *n->in);
        for (int i = 0; i < n->in_count; i++)
            n->in[i] = n->in[i] < 0 ? -1 : id_in(to, original, g, n->in[i]);
        n->out = zt_arena_copy(g->arena, n->out, sizeof *n->out);
        n->out[0] = id_in(to, original, g, n->out[0]);
    }
    return to;
}

static bool fuse(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    struct region r = { .count = 0 };
    if (!is_elementwise(g->nodes[node]) || !add(g, &r, node))
        return false;
    while (grow(g, &r))
        ;
    if (r.count == 1 || !put_first(g, &r))
        return false;
    put_in_order(&r);
    struct zt_attr *steps = ZT_NEW(g->arena, struct zt_attr);
    *steps = (struct zt_attr){ .name = "steps", .type = ZT_ATTR_GRAPH, .graph = copy_steps(g, &r) };
    const struct zt_node like = { .attr = steps, .attr_count = 1 };
    for (int k = 0; k < r.count; k++)
        g->nodes[r.node[k]]->dead = true;
    zt_fuse_replace(g, table, node, &(struct zt_fused_node){ "FusedElementwise", r.in, r.in_count, NULL, 0, &like },
                    err);
    return true;
}

const struct zt_pattern zt_pattern_fused_elementwise = { "fused_elementwise", 1 << ZT_CUDA, fuse };
