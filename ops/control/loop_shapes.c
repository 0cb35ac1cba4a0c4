/* The rows of LoopRun and LoopRunGrad (ops/control/loop.h): their shapes and FLOPs. */
#include "ops/control/loop.h"

#include "graph/passes/low_rank/low_rank.h"
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

static int first_shared(const struct zt_node *n) {
    struct zt_loop_shape l;
    zt_loop_shape_of(n, &l);
    return l.states + l.slices;
}

static const struct zt_low_rank_body run_body = { .attr = "body", .first_shared = first_shared, .before = 1 };
static const struct zt_low_rank_row run_low_rank_row = { .body = &run_body };

const struct zt_op zt_op_loop_run = {
    .name = "LoopRun",
    .domain = "ztrain",
    .since = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC,
    .attrs = run_attrs,
    .infer = run_infer,
    .grad = zt_loop_gradient,
    .low_rank = &run_low_rank_row,
    .flops = run_flops,
    .kernel = { [ZT_REF] = { .prepare = zt_loop_run_prepare, .run = zt_loop_run, .release = zt_loop_release },
                [ZT_CPU] = { .prepare = zt_loop_run_prepare, .run = zt_loop_run, .release = zt_loop_release } },
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
    .kernel = { [ZT_REF] = { .prepare = zt_loop_grad_prepare, .run = zt_loop_run_back, .release = zt_loop_release },
                [ZT_CPU] = { .prepare = zt_loop_grad_prepare, .run = zt_loop_run_back, .release = zt_loop_release } },
};
