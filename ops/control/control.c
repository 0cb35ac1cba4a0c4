/* If, Loop, Scan: nodes that hold graphs. None is ever run: each is replaced by what it stands for as soon as that is
 * known (graph/passes/lower.h), which in training is before the first step, in an eager run when it is reached. A loop
 * that would be large becomes one node that runs as a loop (ops/control/loop.h).
 *
 *     If      the nodes of one branch; where the condition depends on data, in training one node that runs a branch
 *             (ops/control/if.h)
 *     Loop    for (i = 0; i < M && cond; i++) { cond, v.., s.. = body(i, cond, v..); }
 *     Scan    for (i = 0; i < T; i++) { v.., s.. = body(v.., x[i]..); }
 *
 * Loop and Scan give v at the end, and all s stacked; x are cut along an axis. */
#include "graph/passes/lower.h"
#include "graph/passes/bounds.h"
#include "ops/control/if.h"
#include "ops/control/loop.h"
#include "ops/kernel/shape.h"

#include <limits.h>
#include <string.h>

/* A node's body and what goes in and out of it. */
struct loop {
    const struct zt_graph *body;
    int states; /* carried from iteration to iteration */
    int scans;  /* cut up, Scan only */
    int stacks; /* outputs of an iteration that are stacked */
};

static int inputs_of(const struct zt_expansion *x) {
    return x->g->nodes[x->node]->in_count - x->g->nodes[x->node]->captured;
}

static bool copy_value(struct zt_expansion *x, int from, int to, struct zt_err *err) {
    return to < 0 || zt_expand_emit(x, &(struct zt_expand_node){ "Identity", &from, 1 }, &to, 1, err);
}

static bool check_body(const struct zt_expansion *x, const char *name, int inputs, int outputs, struct zt_err *err) {
    const struct zt_graph *body = zt_expand_subgraph(x, name);
    if (body->input_count == inputs && body->output_count >= outputs)
        return true;
    return zt_node_fail(x->g, x->node, err, "%s has %d inputs and %d outputs, wants %d and %d%s", name,
                        body->input_count, body->output_count, inputs, outputs, inputs ? " or more" : "");
}

/* ---- If ---- */

/* The one number of an input; false where it is not known, or not one. */
static bool known_number(const struct zt_expansion *x, int value, int64_t *to, const char *what, struct zt_err *err) {
    const struct zt_value *v = x->g->values[value];
    if (zt_shape_count(&v->shape) != 1)
        return zt_node_fail(x->g, x->node, err, "its %s \"%s\" is not one number", what, v->name);
    if (!v->data)
        return zt_node_fail(
            x->g, x->node, err,
            "its %s \"%s\" depends on data: only one that follows from shapes and constants is supported "
            "in training",
            what, v->name);
    *to = zt_load_int(v->dtype, v->data, 0);
    return true;
}

static bool check_branches(const struct zt_expansion *x, struct zt_err *err) {
    const int outputs = x->g->nodes[x->node]->out_count;
    return check_body(x, "then_branch", 0, outputs, err) && check_body(x, "else_branch", 0, outputs, err);
}

static bool if_expand(struct zt_expansion *x, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    const struct zt_value *c = x->g->values[n->in[0]];
    int64_t condition;
    if (zt_shape_count(&c->shape) == 1 && !c->data)
        return check_branches(x, err) && zt_if_run(x, err);
    if (!known_number(x, n->in[0], &condition, "condition", err))
        return false;
    const char *branch = condition ? "then_branch" : "else_branch";
    return check_body(x, branch, 0, n->out_count, err) && zt_if_take(x, branch, err);
}

/* ---- iterations ---- */

/* x->values: the states, then each iteration's stacked outputs from `first` on. */
static int *stacked(const struct zt_expansion *x, const struct loop *l, int first, int iteration) {
    return &x->values.at[first + iteration * l->stacks];
}

/* Ids of all outputs that there can be, -1 where the node has them not. */
static const int *outputs_of(const struct zt_expansion *x, const struct loop *l) {
    const struct zt_node *n = x->g->nodes[x->node];
    int *out = ZT_NEW_N(x->g->arena, int, l->states + l->stacks + 1);
    memset(out, -1, (size_t)(l->states + l->stacks) * sizeof *out);
    memcpy(out, n->out, (size_t)n->out_count * sizeof *out);
    return out;
}

/* Creates the stacked output of a loop without iterations. Its type is that which the file declares, of the body's
 * output or, without its first axis, of the result; undeclared dims are 0. */
static bool stack_nothing(struct zt_expansion *x, const struct zt_value *like, int axis, int to, struct zt_err *err) {
    const struct zt_value *declared = x->g->values[to];
    struct zt_shape shape = { .rank = like->shape.rank < 0 ? declared->shape.rank : like->shape.rank + 1 };
    enum zt_dtype dtype = like->dtype ? like->dtype : declared->dtype;
    if (!zt_dtype_bytes(dtype) || shape.rank < 0)
        return zt_node_fail(x->g, x->node, err, "it runs no iteration, and the type of \"%s\" is not declared",
                            like->name);
    if (!zt_ops_rank(x->g, x->node, shape.rank, err) || !zt_axis(x->g, x->node, axis, shape.rank, &axis, err))
        return false;
    for (int k = 0, from = 0; k < shape.rank; k++) {
        int64_t dim = k == axis ? 0 : like->shape.rank < 0 ? declared->shape.dim[k] : like->shape.dim[from++];
        shape.dim[k] = dim < 0 ? 0 : dim;
    }
    return copy_value(x, zt_graph_add_constant(x->g, NULL, dtype, &shape, ""), to, err);
}

/* A stacked output: output k of every iteration along a new axis, of the last iteration first where `backward`. */
struct stack {
    int first; /* in x->values: the stacked outputs of the first iteration */
    int k;
    int64_t axis;
    bool backward;
};

static bool stack(struct zt_expansion *x, const struct loop *l, const struct stack *s, int to, struct zt_err *err) {
    int iterations = l->stacks ? (x->values.count - s->first) / l->stacks : 0;
    if (to < 0)
        return true;
    if (!iterations)
        return stack_nothing(x, l->body->values[l->body->outputs[l->body->output_count - l->stacks + s->k]],
                             (int)s->axis, to, err);
    int *pieces = ZT_NEW_N(x->g->arena, int, iterations), axes = zt_graph_add_ints(x->g, NULL, &s->axis, 1);
    for (int t = 0; t < iterations; t++) {
        int in[2] = { stacked(x, l, s->first, s->backward ? iterations - 1 - t : t)[s->k], axes };
        pieces[t] = -1;
        if (!zt_expand_emit(x, &(struct zt_expand_node){ "Unsqueeze", in, 2 }, &pieces[t], 1, err))
            return false;
    }
    const struct zt_attr along = { .name = "axis", .type = ZT_ATTR_INT, .i = s->axis };
    return zt_expand_emit(x, &(struct zt_expand_node){ "Concat", pieces, iterations, &along, 1 }, &to, 1, err);
}

/* One iteration: the first `outputs - stacks` outputs of the body, the next states, go to `next`. */
static bool copy_iteration(struct zt_expansion *x, const struct loop *l, const int *in, int *next, struct zt_err *err) {
    int count = l->body->output_count, *out = ZT_NEW_N(x->g->arena, int, count);
    memset(out, -1, (size_t)count * sizeof *out);
    if (!zt_expand_copy(x, "body", in, out, err))
        return false;
    memcpy(next, out, (size_t)(count - l->stacks) * sizeof *out);
    for (int k = 0; k < l->stacks; k++)
        zt_vec_push(&x->values, out[count - l->stacks + k]);
    return true;
}

/* ---- Loop ---- */

/* x->values: the condition (-1: none), the states, the stacked. */
static bool loop_read(struct zt_expansion *x, struct loop *l, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    if (inputs_of(x) < 2)
        return zt_node_fail(x->g, x->node, err, "has %d inputs, wants 2 or more", inputs_of(x));
    *l = (struct loop){ .body = zt_expand_subgraph(x, "body"), .states = inputs_of(x) - 2 };
    l->stacks = l->body->output_count - 1 - l->states;
    for (int i = 0; i < l->states; i++)
        if (n->in[2 + i] < 0)
            return zt_node_fail(x->g, x->node, err, "input %d is missing", 2 + i);
    if (n->out_count > l->states + l->stacks)
        return zt_node_fail(x->g, x->node, err, "has %d outputs, its body makes %d", n->out_count,
                            l->states + l->stacks);
    return check_body(x, "body", l->states + 2, l->states + 1, err);
}

/* Returns type, shape and contents of a value of the body before it is copied; data NULL: not known. */
static struct zt_tensor known_in_body(const struct zt_expansion *x, const struct zt_graph *body, int value) {
    const struct zt_value *v = body->values[value];
    const struct zt_node *n = x->g->nodes[x->node];
    struct zt_tensor known = { v->dtype, v->shape, v->data };
    if (v->producer >= 0 && !zt_constant_tensor(body->nodes[v->producer], &known))
        known.data = NULL;
    for (int i = 0; i < body->captured_count; i++)
        if (body->captured[i] == value) {
            const struct zt_value *outside = x->g->values[n->in[n->in_count - n->captured + i]];
            known = (struct zt_tensor){ outside->dtype, outside->shape,
                                        zt_value_is_constant(outside) ? outside->data : NULL };
        }
    return known;
}

/* Whether a condition that was true once stays so: the body hands out what it was given, or a constant. */
static bool condition_stays(const struct zt_expansion *x, const struct zt_graph *body) {
    int v = body->outputs[0];
    while (body->values[v]->producer >= 0) {
        const struct zt_node *n = body->nodes[body->values[v]->producer];
        const struct zt_op *op = zt_op_of(x->g->table, n);
        if (n->in_count != 1 || n->in[0] < 0 || !op || !(op->flags & (ZT_OP_VIEW | ZT_OP_CAST)))
            break;
        v = n->in[0];
    }
    const struct zt_tensor known = known_in_body(x, body, v);
    return v == body->inputs[1] ||
           (known.data && zt_shape_count(&known.shape) == 1 && zt_load_int(known.dtype, known.data, 0));
}

static bool fail_unbounded(const struct zt_expansion *x, struct zt_err *err) {
    return zt_node_fail(x->g, x->node, err,
                        "its number of iterations depends on data, and nothing in the graph bounds it to %d or "
                        "less: not supported in training",
                        ZT_LOOP_BOUND) ||
           zt_hint(err, "bound it in the network: while bool(..) and n < 20, or range(min(n, 20))");
}

/* Whether a number of which iterations depend follows from data. Outside of trials known_number() then refuses it. */
static bool is_unsized(const struct zt_expansion *x, int value) {
    const struct zt_value *v = x->g->values[value];
    const bool unsized = !v->data && zt_shape_count(&v->shape) == 1;
    if (unsized && x->settler->unsized)
        *x->settler->unsized = true;
    return unsized && x->settler->trial != ZT_TRIAL_NONE;
}

/* The trip count. In a trial of sizes with less that is 1 or more where it can be 2, so that results of an iteration
 * have shapes. */
static bool trip_count(const struct zt_expansion *x, int64_t *trips, struct zt_err *err) {
    const int value = x->g->nodes[x->node]->in[0];
    *trips = INT64_MAX;
    if (value < 0)
        return true;
    if (!is_unsized(x, value))
        return known_number(x, value, trips, "trip count", err);
    const struct zt_bounds bounds = zt_bounds_of(x->g, value);
    const int64_t most = bounds.high < 1 ? 0 : bounds.high < (double)INT_MAX ? (int64_t)bounds.high : INT64_MAX;
    const int64_t least = bounds.low >= 1 && bounds.low < (double)INT_MAX ? (int64_t)bounds.low : most > 1;
    *trips = x->settler->trial == ZT_TRIAL_MOST ? most : least;
    return true;
}

/* Whether the condition (-1: none) holds; in a trial whether it can, in that with less, behind iteration 0, must. */
static bool condition_holds(const struct zt_expansion *x, int condition, int64_t *holds, struct zt_err *err) {
    *holds = 1;
    if (condition < 0)
        return true;
    if (!is_unsized(x, condition))
        return known_number(x, condition, holds, "condition", err);
    const struct zt_bounds bounds = zt_bounds_of(x->g, condition);
    const bool can = bounds.low != 0 || bounds.high != 0, must = bounds.low > 0;
    *holds = x->step == 0 || x->settler->trial == ZT_TRIAL_MOST ? can : must;
    return true;
}

/* Returns the number of iterations if it is known before the first, else -1. */
static bool count_iterations(struct zt_expansion *x, const struct loop *l, int64_t *iterations, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    int64_t go;
    if (!trip_count(x, iterations, err) || !condition_holds(x, n->in[1], &go, err))
        return false;
    *iterations = !go || *iterations < 0 ? 0 : condition_stays(x, l->body) ? *iterations : -1;
    if (*iterations == INT64_MAX && n->in[0] >= 0 && !x->g->values[n->in[0]]->data)
        return fail_unbounded(x, err);
    return n->in[0] >= 0 || *iterations != INT64_MAX ||
           zt_node_fail(x->g, x->node, err, "it does not end: it has no trip count, and its condition stays true");
}

/* Sets x->done where the loop runs as one node. An iteration that is written out adds a node for each stacked output.
 */
static bool loop_begin(struct zt_expansion *x, const struct loop *l, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    struct zt_loop whole = { .condition = true, .states = l->states, .stacks = l->stacks, .state = n->in + 2 };
    for (int i = 1; i < l->states + 2; i++)
        zt_vec_push(&x->values, n->in[i]);
    if (!count_iterations(x, l, &whole.iterations, err))
        return false;
    whole.axis_out = whole.reverse_out = ZT_NEW_N(x->g->arena, int64_t, l->stacks + 1);
    whole.out = outputs_of(x, l);
    if (whole.iterations < 0 && x->settler->run) {
        const struct zt_value *trips = zt_in(x->g, x->node, 0);
        whole.iterations = trips ? zt_load_int(trips->dtype, trips->data, 0) : INT64_MAX;
        x->done = true;
        return zt_loop_alone(x, &whole, err);
    }
    return whole.iterations <= 0 || (zt_loop_try(x, &whole, l->stacks, &x->done, err) &&
                                     (x->done || zt_expand_fits(x, "body", whole.iterations, l->stacks, err)));
}

static bool loop_goes_on(struct zt_expansion *x, bool *goes_on, struct zt_err *err) {
    int64_t limit, go;
    if (!trip_count(x, &limit, err) || !condition_holds(x, x->values.at[0], &go, err))
        return false;
    *goes_on = x->step < limit && go;
    const bool bounded = x->settler->trial == ZT_TRIAL_NONE || limit <= ZT_LOOP_BOUND || x->step < ZT_LOOP_BOUND;
    return !*goes_on || bounded || fail_unbounded(x, err);
}

static bool loop_iteration(struct zt_expansion *x, const struct loop *l, struct zt_err *err) {
    int *in = ZT_NEW_N(x->g->arena, int, l->states + 2);
    const int64_t index = x->step;
    const bool yes = true;
    in[0] = zt_graph_add_constant(x->g, NULL, ZT_INT64, &(struct zt_shape){ 0 }, &index);
    in[1] = zt_graph_add_constant(x->g, NULL, ZT_BOOL, &(struct zt_shape){ 0 }, &yes);
    memcpy(in + 2, x->values.at + 1, (size_t)l->states * sizeof *in);
    int *next = ZT_NEW_N(x->g->arena, int, l->states + 1);
    if (!copy_iteration(x, l, in, next, err))
        return false;
    memcpy(x->values.at, next, (size_t)(l->states + 1) * sizeof *next);
    return true;
}

static bool loop_expand(struct zt_expansion *x, struct zt_err *err) {
    struct loop l = { 0 };
    bool goes_on;
    if (!loop_read(x, &l, err))
        return false;
    if (!x->step && !loop_begin(x, &l, err))
        return false;
    if (x->done)
        return true;
    if (!loop_goes_on(x, &goes_on, err))
        return false;
    if (goes_on)
        return loop_iteration(x, &l, err);
    x->done = true;
    const int *out = x->g->nodes[x->node]->out, count = x->g->nodes[x->node]->out_count;
    for (int i = 0; i < count; i++)
        if (i < l.states ? !copy_value(x, x->values.at[1 + i], out[i], err)
                         : !stack(x, &l, &(struct stack){ .first = l.states + 1, .k = i - l.states }, out[i], err))
            return false;
    return true;
}

/* ---- Scan ---- */

/* Entry i of a list attribute, 0 without. */
static int64_t entry(const struct zt_expansion *x, const char *name, int i) {
    int count;
    const int64_t *list = zt_attr_ints(x->g->nodes[x->node], name, &count);
    return i < count ? list[i] : 0;
}

static bool scan_read(struct zt_expansion *x, struct loop *l, struct zt_err *err) {
    const struct zt_node *n = x->g->nodes[x->node];
    int64_t scans = zt_attr_int(n, "num_scan_inputs", 0);
    if (scans < 1 || scans > inputs_of(x))
        return zt_node_fail(x->g, x->node, err, "num_scan_inputs is %lld of %d inputs", (long long)scans, inputs_of(x));
    *l = (struct loop){ .body = zt_expand_subgraph(x, "body"), .scans = (int)scans };
    l->states = inputs_of(x) - l->scans;
    l->stacks = l->body->output_count - l->states;
    for (int i = 0; i < inputs_of(x); i++)
        if (n->in[i] < 0)
            return zt_node_fail(x->g, x->node, err, "input %d is missing", i);
    if (n->out_count > l->body->output_count)
        return zt_node_fail(x->g, x->node, err, "has %d outputs, its body makes %d", n->out_count,
                            l->body->output_count);
    return check_body(x, "body", l->states + l->scans, l->states, err);
}

/* The axis that is cut of scan input i, and how many iterations that makes. */
static bool scan_axis(struct zt_expansion *x, const struct loop *l, int i, int *axis, int64_t *iterations,
                      struct zt_err *err) {
    const struct zt_value *v = zt_in(x->g, x->node, l->states + i);
    if (!zt_axis(x->g, x->node, entry(x, "scan_input_axes", i), v->shape.rank, axis, err))
        return false;
    if (i && v->shape.dim[*axis] != *iterations)
        return zt_node_fail(x->g, x->node, err, "\"%s\" has %lld slices, its first scan input has %lld", v->name,
                            (long long)v->shape.dim[*axis], (long long)*iterations);
    *iterations = v->shape.dim[*axis];
    return *iterations <= INT_MAX / 4 ||
           zt_node_fail(x->g, x->node, err, "wants %lld iterations", (long long)*iterations);
}

/* Cuts scan input i; its slices go to x->values, first iteration first. */
static bool cut(struct zt_expansion *x, const struct loop *l, int i, int64_t axis, int iterations, struct zt_err *err) {
    int *pieces = ZT_NEW_N(x->g->arena, int, iterations);
    int64_t *ones = ZT_NEW_N(x->g->arena, int64_t, iterations);
    for (int t = 0; t < iterations; t++) {
        pieces[t] = -1;
        ones[t] = 1;
    }
    int in[2] = { x->g->nodes[x->node]->in[l->states + i], zt_graph_add_ints(x->g, NULL, ones, iterations) };
    const struct zt_attr along = { .name = "axis", .type = ZT_ATTR_INT, .i = axis };
    if (!zt_expand_emit(x, &(struct zt_expand_node){ "Split", in, 2, &along, 1 }, pieces, iterations, err))
        return false;
    int axes = zt_graph_add_ints(x->g, NULL, &axis, 1);
    for (int t = 0; t < iterations; t++) {
        int of[2] = { pieces[entry(x, "scan_input_directions", i) ? iterations - 1 - t : t], axes }, slice = -1;
        if (!zt_expand_emit(x, &(struct zt_expand_node){ "Squeeze", of, 2 }, &slice, 1, err))
            return false;
        zt_vec_push(&x->values, slice);
    }
    return true;
}

/* `count` entries of a list attribute. */
static const int64_t *entries(const struct zt_expansion *x, const char *name, int count) {
    int64_t *list = ZT_NEW_N(x->g->arena, int64_t, count + 1);
    for (int i = 0; i < count; i++)
        list[i] = entry(x, name, i);
    return list;
}

/* Sets x->done where the Scan runs as one node. */
static bool scan_run(struct zt_expansion *x, const struct loop *l, int64_t iterations, struct zt_err *err) {
    int64_t *axes = ZT_NEW_N(x->g->arena, int64_t, l->scans + 1);
    for (int i = 0, axis; i < l->scans; i++) {
        if (!scan_axis(x, l, i, &axis, &iterations, err))
            return false;
        axes[i] = axis;
    }
    const struct zt_loop whole = { .iterations = iterations,
                                   .states = l->states,
                                   .slices = l->scans,
                                   .stacks = l->stacks,
                                   .state = x->g->nodes[x->node]->in,
                                   .slice = x->g->nodes[x->node]->in + l->states,
                                   .axis_in = axes,
                                   .axis_out = entries(x, "scan_output_axes", l->stacks),
                                   .reverse_in = entries(x, "scan_input_directions", l->scans),
                                   .reverse_out = entries(x, "scan_output_directions", l->stacks),
                                   .out = outputs_of(x, l) };
    return !iterations || (zt_loop_try(x, &whole, l->scans + l->stacks, &x->done, err) &&
                           (x->done || zt_expand_fits(x, "body", iterations, l->scans + l->stacks, err)));
}

/* x->values: the states, the slices of every scan input, the stacked. */
static bool scan_begin(struct zt_expansion *x, const struct loop *l, int64_t iterations, struct zt_err *err) {
    if (!scan_run(x, l, iterations, err))
        return false;
    for (int i = 0; i < l->states; i++)
        zt_vec_push(&x->values, x->g->nodes[x->node]->in[i]);
    for (int i = 0, axis; iterations && !x->done && i < l->scans; i++)
        if (!scan_axis(x, l, i, &axis, &iterations, err) || !cut(x, l, i, axis, (int)iterations, err))
            return false;
    return true;
}

static bool scan_iteration(struct zt_expansion *x, const struct loop *l, int iterations, struct zt_err *err) {
    int *in = ZT_NEW_N(x->g->arena, int, l->states + l->scans), *next = ZT_NEW_N(x->g->arena, int, l->states);
    memcpy(in, x->values.at, (size_t)l->states * sizeof *in);
    for (int i = 0; i < l->scans; i++)
        in[l->states + i] = x->values.at[l->states + i * iterations + x->step];
    if (!copy_iteration(x, l, in, next, err))
        return false;
    memcpy(x->values.at, next, (size_t)l->states * sizeof *next);
    return true;
}

static bool scan_expand(struct zt_expansion *x, struct zt_err *err) {
    struct loop l = { 0 };
    int64_t iterations = 0;
    if (!scan_read(x, &l, err))
        return false;
    for (int i = 0, axis; i < l.scans; i++)
        if (!scan_axis(x, &l, i, &axis, &iterations, err))
            return false;
    if (!x->step && !scan_begin(x, &l, iterations, err))
        return false;
    if (x->done)
        return true;
    if (x->step < iterations)
        return scan_iteration(x, &l, (int)iterations, err);
    x->done = true;
    const int *out = x->g->nodes[x->node]->out, count = x->g->nodes[x->node]->out_count;
    int first = l.states + l.scans * (int)iterations;
    for (int i = 0; i < l.states && i < count; i++)
        if (!copy_value(x, x->values.at[i], out[i], err))
            return false;
    for (int k = 0; k < count - l.states; k++) {
        const struct stack s = { first, k, entry(x, "scan_output_axes", k), entry(x, "scan_output_directions", k) };
        if (!stack(x, &l, &s, out[l.states + k], err))
            return false;
    }
    return true;
}

/* ---- rows ---- */

static const struct zt_attr_spec if_attrs[] = { { "then_branch", ZT_ATTR_GRAPH, true },
                                                { "else_branch", ZT_ATTR_GRAPH, true },
                                                { 0 } };
static const struct zt_attr_spec loop_attrs[] = { { "body", ZT_ATTR_GRAPH, true }, { 0 } };
static const struct zt_attr_spec scan_attrs[] = { { "body", ZT_ATTR_GRAPH, true },
                                                  { "num_scan_inputs", ZT_ATTR_INT, true },
                                                  { "scan_input_axes", ZT_ATTR_INTS },
                                                  { "scan_input_directions", ZT_ATTR_INTS },
                                                  { "scan_output_axes", ZT_ATTR_INTS },
                                                  { "scan_output_directions", ZT_ATTR_INTS },
                                                  { 0 } };

const struct zt_op zt_op_if = {
    .name = "If",
    .domain = "",
    .since = 1,
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_LISTS,
    .in_types = { ZT_BIT(ZT_BOOL) },
    .attrs = if_attrs,
    .no_grad_in = 1 << 0,
    .expand = if_expand,
};
const struct zt_op zt_op_loop = {
    .name = "Loop",
    .domain = "",
    .since = 1,
    .min_out = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC | ZT_OP_LISTS,
    .attrs = loop_attrs,
    .no_grad_in = 1 << 0 | 1 << 1,
    .expand = loop_expand,
};
const struct zt_op zt_op_scan = {
    .name = "Scan",
    .domain = "",
    .since = 9,
    .min_out = 1,
    .max_out = INT_MAX,
    .flags = ZT_OP_VARIADIC | ZT_OP_LISTS,
    .attrs = scan_attrs,
    .expand = scan_expand,
};
