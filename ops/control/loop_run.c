/* Loops that run as loops (ops/control/loop_run.h).
 *
 * The gradient goes back over the iterations. Of an iteration it needs what the iteration began with: the states of all
 * iterations are computed once more, in workspace, and the rest of an iteration again just before its gradient:
 *
 *     v[0] = v;  for (t = 0; t + 1 < T; t++) v[t + 1] = body(t, v[t], x[t], c)                        states alone
 *     for (t = T - 1; t >= 0; t--) { dv, dx[t], e = gradient(t, v[t], x[t], c, dv, ds[t]);  dc += e; }
 *
 * `gradient` is the body and what autograd makes of it, one graph. Sums over iterations are in float (double of
 * doubles), the last iteration first. */
#include "ops/control/loop_run.h"

#include "ops/kernel/shape.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct zt_shape stacked(const struct zt_shape *each, int64_t iterations) {
    struct zt_shape shape = { .rank = each->rank + 1, .dim = { iterations } };
    memcpy(shape.dim + 1, each->dim, (size_t)each->rank * sizeof *each->dim);
    return shape;
}

/* ---- infer ---- */

static bool same(const struct zt_value *v, const struct zt_value *wanted, const struct zt_shape *shape) {
    return v && v->dtype == wanted->dtype && zt_shape_equal(&v->shape, shape);
}

static bool check_inputs(const struct zt_graph *g, int node, const struct zt_loop_shape *l, struct zt_err *err) {
    for (int i = 0; i < l->states + l->slices + l->captured; i++) {
        const struct zt_value *v = zt_loop_in(l, i);
        const bool slice = i >= l->states && i < l->states + l->slices;
        const struct zt_shape shape = slice ? stacked(&v->shape, l->iterations) : v->shape;
        if (!same(zt_in(g, node, i), v, &shape))
            return zt_node_fail(g, node, err, "input %d is not what its body reads", i);
    }
    return true;
}

static bool run_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_loop_shape l;
    zt_loop_shape_of(g->nodes[node], &l);
    if (!check_inputs(g, node, &l, err))
        return false;
    for (int i = 0; i < l.states + l.stacks; i++) {
        const struct zt_value *v = zt_loop_out(&l, i);
        if (i >= l.states && !zt_ops_rank(g, node, v->shape.rank + 1, err))
            return false;
        const struct zt_shape shape = i < l.states ? v->shape : stacked(&v->shape, l.iterations);
        zt_set_out(g, node, i, v->dtype, &shape);
    }
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_loop_shape l;
    struct zt_loop_gradient d;
    zt_loop_shape_of(g->nodes[node], &l);
    zt_loop_gradient_of(g->nodes[node], &d);
    double bytes = 0;
    for (int i = 0; i < l.states; i++)
        bytes += (double)l.iterations * (double)zt_value_bytes(zt_loop_in(&l, i));
    if (bytes > (double)(INT64_C(1) << 40))
        return zt_node_fail(g, node, err, "the states of its %lld iterations take %.0f GB", (long long)l.iterations,
                            bytes / 1e9);
    int out = 0;
    for (int k = 0; k < d.state_count; k++, out++)
        zt_set_out(g, node, out, zt_loop_in(&l, (int)d.states[k])->dtype, &zt_loop_in(&l, (int)d.states[k])->shape);
    for (int k = 0; k < d.slice_count; k++, out++) {
        const struct zt_value *x = zt_in(g, node, l.states + (int)d.slices[k]);
        zt_set_out(g, node, out, x->dtype, &x->shape);
    }
    for (int k = 0; k < d.captured_count; k++, out++) {
        const struct zt_value *c = zt_in(g, node, l.states + l.slices + (int)d.captured[k]);
        zt_set_out(g, node, out, c->dtype, &c->shape);
    }
    return check_inputs(g, node, &l, err);
}

static double body_flops(const struct zt_graph *body) {
    double flops = 0;
    for (int n = 0; n < body->node_count; n++)
        flops += zt_op_flops(body, n);
    return flops;
}

static double run_flops(const struct zt_graph *g, int node) {
    return (double)zt_attr_int(g->nodes[node], "iterations", 0) *
           body_flops(zt_node_attr(g->nodes[node], "body")->graph);
}

static double grad_flops(const struct zt_graph *g, int node) {
    const struct zt_graph *gradient = zt_node_attr(g->nodes[node], "gradient")->graph;
    return run_flops(g, node) + (double)zt_attr_int(g->nodes[node], "iterations", 0) * body_flops(gradient);
}

/* ---- the gradient rule ---- */

/* While the graph of one iteration back is made. */
struct back {
    struct zt_grad *b;
    int node;
    struct zt_loop_shape l;
    struct zt_graph *g; /* that graph */
    struct zt_cotangent *from;
    int from_count;
    int64_t *states, *given, *slices, *captured;
    int state_count, given_count, slice_count, captured_count;
    int *wanted, *grads, wanted_count;
};

static void add_cotangent(struct back *k, int output) {
    const int of = k->g->outputs[output];
    struct zt_shape shape = k->g->values[of]->shape;
    const int id = zt_graph_add_value(k->g, "gradient", k->g->values[of]->dtype, &shape);
    k->g->values[id]->origin = ZT_FROM_INPUT;
    k->g->inputs[k->g->input_count++] = id;
    k->from[k->from_count++] = (struct zt_cotangent){ of, id };
}

static bool is_float(const struct zt_value *v) {
    return zt_dtype_in(v->dtype, ZT_ANY_FLOAT);
}

static void open_back(struct back *k, struct zt_arena *arena) {
    const struct zt_loop_shape *l = &k->l;
    const int inputs = l->states + l->slices + l->captured, most = inputs + l->states + l->stacks + 1;
    k->g = zt_graph_clone_in(arena, l->body);
    int *all = ZT_NEW_N(arena, int, most + 1);
    memcpy(all, k->g->inputs, ((size_t)inputs + 1) * sizeof *all);
    k->g->inputs = all;
    k->from = ZT_NEW_N(arena, struct zt_cotangent, most);
    k->states = ZT_NEW_N(arena, int64_t, l->states + 1);
    k->given = ZT_NEW_N(arena, int64_t, l->stacks + 1);
    k->slices = ZT_NEW_N(arena, int64_t, l->slices + 1);
    k->captured = ZT_NEW_N(arena, int64_t, l->captured + 1);
    k->wanted = ZT_NEW_N(arena, int, most);
    k->grads = ZT_NEW_N(arena, int, most);
    for (int i = 0; i < l->states; i++)
        if (is_float(zt_loop_in(l, i))) {
            k->states[k->state_count++] = i;
            k->wanted[k->wanted_count++] = k->g->inputs[1 + i];
            add_cotangent(k, i);
        }
    for (int i = 0; i < l->stacks; i++)
        if (zt_grad_out(k->b, k->node, l->states + i) >= 0) {
            k->given[k->given_count++] = i;
            add_cotangent(k, l->states + i);
        }
    for (int i = l->states; i < inputs; i++)
        if (zt_grad_wanted(k->b, k->node, i))
            k->wanted[k->wanted_count++] = k->g->inputs[1 + i];
}

/* What no path leads to is no output, but a state, which is zeros. */
static void list_results(struct back *k, struct zt_arena *arena) {
    const struct zt_loop_shape *l = &k->l;
    const int first_slice = l->states, first_captured = l->states + l->slices;
    k->g->outputs = ZT_NEW_N(arena, int, k->wanted_count + 1);
    k->g->output_count = 0;
    for (int w = 0; w < k->wanted_count; w++) {
        int i = 0, gradient = k->grads[w];
        while (k->g->inputs[1 + i] != k->wanted[w])
            i++;
        if (w < k->state_count && gradient < 0) {
            const struct zt_value *v = k->g->values[k->wanted[w]];
            const struct zt_shape shape = v->shape;
            void *zeros = zt_calloc((size_t)zt_value_bytes(v) + 1, 1);
            gradient = zt_graph_add_constant(k->g, NULL, v->dtype, &shape, zeros);
            free(zeros);
        }
        if (gradient < 0)
            continue;
        if (i >= first_captured)
            k->captured[k->captured_count++] = i - first_captured;
        else if (i >= first_slice)
            k->slices[k->slice_count++] = i - first_slice;
        k->g->outputs[k->g->output_count++] = gradient;
    }
}

static bool build_back(struct back *k, struct zt_arena *arena, struct zt_err *err) {
    open_back(k, arena);
    if (!zt_grad_build(k->g, k->g->table,
                       &(struct zt_grad_request){ k->from, k->from_count, k->wanted, k->wanted_count }, k->grads,
                       err)) {
        zt_graph_destroy(k->g);
        return false;
    }
    list_results(k, arena);
    if (!zt_graph_prune(k->g, k->g->outputs, k->g->output_count, err)) {
        zt_graph_destroy(k->g);
        return false;
    }
    zt_graph_settle(k->g);
    return true;
}

static bool emit_back(struct back *k, struct zt_arena *arena, int *out) {
    const struct zt_node *n = zt_grad_graph(k->b)->nodes[k->node];
    const struct zt_loop_shape *l = &k->l;
    const int inputs = l->states + l->slices + l->captured;
    int *in = ZT_NEW_N(arena, int, inputs + l->states + l->stacks + 1), count = inputs;
    memcpy(in, n->in, (size_t)inputs * sizeof *in);
    for (int i = 0; i < k->state_count; i++)
        in[count++] = zt_grad_out(k->b, k->node, (int)k->states[i]);
    for (int i = 0; i < k->given_count; i++)
        in[count++] = zt_grad_out(k->b, k->node, l->states + (int)k->given[i]);
    const struct zt_attr attrs[] = {
        { .name = "gradient", .type = ZT_ATTR_GRAPH, .graph = k->g },
        { .name = "float_states", .type = ZT_ATTR_INTS, .count = k->state_count, .ints = k->states },
        { .name = "given", .type = ZT_ATTR_INTS, .count = k->given_count, .ints = k->given },
        { .name = "wanted_slices", .type = ZT_ATTR_INTS, .count = k->slice_count, .ints = k->slices },
        { .name = "wanted_captured", .type = ZT_ATTR_INTS, .count = k->captured_count, .ints = k->captured },
    };
    return zt_emit_node(
        k->b, &(struct zt_emission){ "LoopRunGrad", "ztrain", in, count, n, attrs, sizeof attrs / sizeof *attrs }, out,
        k->g->output_count);
}

static bool run_grad(struct zt_grad *b, int node, struct zt_err *err) {
    struct zt_arena *arena = zt_grad_graph(b)->arena;
    struct back k = { .b = b, .node = node };
    zt_loop_shape_of(zt_grad_graph(b)->nodes[node], &k.l);
    if (!build_back(&k, arena, err))
        return false;
    int *out = ZT_NEW_N(arena, int, k.g->output_count + 1), at = 0;
    if (!k.g->output_count || !emit_back(&k, arena, out))
        return !k.g->output_count;
    for (int i = 0; i < k.state_count; i++, at++)
        if (zt_grad_wanted(b, node, (int)k.states[i]))
            zt_grad_give(b, node, (int)k.states[i], out[at]);
    for (int i = 0; i < k.slice_count; i++)
        zt_grad_give(b, node, k.l.states + (int)k.slices[i], out[at++]);
    for (int i = 0; i < k.captured_count; i++)
        zt_grad_give(b, node, k.l.states + k.l.slices + (int)k.captured[i], out[at++]);
    return true;
}

/* ---- rows ---- */

static const struct zt_attr_spec run_attrs[] = { { "body", ZT_ATTR_GRAPH, true }, { "iterations", ZT_ATTR_INT, true },
                                                 { "states", ZT_ATTR_INT, true }, { "reverse_in", ZT_ATTR_INTS },
                                                 { "reverse_out", ZT_ATTR_INTS }, { 0 } };
static const struct zt_attr_spec grad_attrs[] = { { "body", ZT_ATTR_GRAPH, true },
                                                  { "gradient", ZT_ATTR_GRAPH, true },
                                                  { "iterations", ZT_ATTR_INT, true },
                                                  { "states", ZT_ATTR_INT, true },
                                                  { "reverse_in", ZT_ATTR_INTS },
                                                  { "reverse_out", ZT_ATTR_INTS },
                                                  { "float_states", ZT_ATTR_INTS },
                                                  { "given", ZT_ATTR_INTS },
                                                  { "wanted_slices", ZT_ATTR_INTS },
                                                  { "wanted_captured", ZT_ATTR_INTS },
                                                  { 0 } };

const struct zt_op zt_op_loop_run = {
    .name = "LoopRun",
    .domain = "ztrain",
    .since = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC,
    .attrs = run_attrs,
    .infer = run_infer,
    .grad = run_grad,
    .flops = run_flops,
    .kernel = { [ZT_REF] = { .prepare = zt_loop_run_prepare_ref, .run = zt_loop_run, .release = zt_loop_release },
                [ZT_CPU] = { .prepare = zt_loop_run_prepare_cpu, .run = zt_loop_run, .release = zt_loop_release } },
};
const struct zt_op zt_op_loop_run_grad = {
    .name = "LoopRunGrad",
    .domain = "ztrain",
    .since = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC,
    .attrs = grad_attrs,
    .infer = grad_infer,
    .flops = grad_flops,
    .kernel = { [ZT_REF] = { .prepare = zt_loop_grad_prepare_ref, .run = zt_loop_run_back, .release = zt_loop_release },
                [ZT_CPU] = { .prepare = zt_loop_grad_prepare_cpu,
                             .run = zt_loop_run_back,
                             .release = zt_loop_release } },
};
