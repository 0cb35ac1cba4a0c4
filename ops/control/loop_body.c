/* From a Loop's or Scan's body to a graph that is one iteration of it. */
#include "ops/control/body.h"
#include "ops/control/loop.h"

#include "graph/passes/lower_count.h"
#include "ops/kernel/shape.h"

#include <string.h>

enum { LOOP_WEIGHT = 64 };

static int add_slice(struct zt_body *b, int from, int64_t axis) {
    const struct zt_value *v = b->x->g->values[from];
    struct zt_shape shape = { .rank = 0 };
    for (int k = 0; k < v->shape.rank; k++)
        if (k != axis)
            shape.dim[shape.rank++] = v->shape.dim[k];
    return zt_body_input(b, v->name, v->dtype, &shape);
}

/* Inputs and the copied nodes; *condition is the value that says whether another iteration follows, -1: none does. */
static bool fill(struct zt_body *b, const struct zt_loop *l, int *condition) {
    const struct zt_graph *from = b->x->g, *body = zt_expand_subgraph(b->x, "body");
    int *in = ZT_NEW_N(b->g->arena, int, body->input_count + 1), at = 0;
    const int iteration = zt_body_input(b, "iteration", ZT_INT64, &(struct zt_shape){ 0 });
    if (l->condition) {
        in[at++] = iteration;
        in[at++] = zt_graph_add_constant(b->g, NULL, ZT_BOOL, &(struct zt_shape){ 0 }, &(const bool){ true });
    }
    for (int i = 0; i < l->states; i++) {
        const struct zt_value *v = from->values[l->state[i]];
        if (v->list)
            return zt_fail(b->why, ZT_EXIT_MODEL, "state %d is a sequence or optional", i);
        in[at++] = zt_body_input(b, v->name, v->dtype, &v->shape);
    }
    for (int i = 0; i < l->slices; i++)
        in[at++] = add_slice(b, l->slice[i], l->axis_in[i]);
    int *out = zt_body_open(b, "body", in);
    if (!out)
        return false;
    *condition = l->condition ? out[0] : -1;
    b->g->outputs = out + l->condition;
    b->g->output_count = body->output_count - l->condition;
    return true;
}

static bool check_outputs(const struct zt_body *b, const struct zt_loop *l) {
    char was[ZT_SHAPE_TEXT], is[ZT_SHAPE_TEXT];
    for (int i = 0; i < b->g->output_count; i++) {
        const struct zt_value *v = i < l->states ? b->g->values[b->g->inputs[1 + i]] : NULL;
        const struct zt_value *w = b->g->values[b->g->outputs[i]];
        if (w->list)
            return zt_fail(b->why, ZT_EXIT_MODEL, "output %d of its body is a sequence or optional", i);
        if (v && (v->dtype != w->dtype || !zt_shape_equal(&v->shape, &w->shape)))
            return zt_fail(b->why, ZT_EXIT_MODEL, "state %d is %s%s before an iteration and %s%s after it", i,
                           zt_dtype_name(v->dtype), zt_shape_text(&v->shape, was), zt_dtype_name(w->dtype),
                           zt_shape_text(&w->shape, is));
    }
    return true;
}

static bool check_condition(const struct zt_body *b, int condition) {
    const struct zt_value *v = condition >= 0 ? b->g->values[condition] : NULL;
    return !v || (v->data && zt_shape_count(&v->shape) == 1 && zt_load_int(v->dtype, v->data, 0)) ||
           zt_fail(b->why, ZT_EXIT_MODEL, "an iteration decides whether another follows");
}

/* The body as an iteration of the loop; NULL with the reason where it is not the same each iteration. captured: ids of
 * what its inputs behind the slices read. */
static const struct zt_graph *make_iteration(struct zt_expansion *x, const struct zt_loop *loop, int **captured,
                                             struct zt_err *why) {
    struct zt_body b;
    int condition = -1;
    zt_body_begin(&b, x, 1 + loop->states + loop->slices, why);
    *captured = b.captured;
    return zt_body_end(&b, fill(&b, loop, &condition) && zt_body_infer(&b) && check_condition(&b, condition) &&
                               check_outputs(&b, loop) && zt_body_prune(&b));
}

/* Nodes that one iteration runs. */
static double runs_of(const struct zt_graph *body) {
    double sum = 0;
    for (int n = 0; n < body->node_count; n++) {
        const struct zt_attr *inner = zt_node_attr(body->nodes[n], "body");
        sum += inner ? (double)zt_attr_int(body->nodes[n], "iterations", 1) * runs_of(inner->graph) : 1;
    }
    return sum;
}

/* Nodes of one iteration written out, where a loop inside is no light one. */
static double weight_of(const struct zt_graph *body) {
    double sum = 0;
    for (int n = 0; n < body->node_count; n++)
        sum += zt_node_attr(body->nodes[n], "body") ? LOOP_WEIGHT : 1;
    return sum;
}

/* ---- the node ---- */

/* `from` with its axes in another order, as value *to (-1: a new one). */
static bool emit_transpose(struct zt_expansion *x, int from, const int64_t *perm, int rank, int *to,
                           struct zt_err *err) {
    const struct zt_attr attr = { .name = "perm",
                                  .type = ZT_ATTR_INTS,
                                  .count = rank,
                                  .ints = zt_arena_copy(x->g->arena, perm, (size_t)rank * sizeof *perm) };
    return zt_expand_emit(x, &(struct zt_expand_node){ "Transpose", &from, 1, &attr, 1 }, to, 1, err);
}

/* The axis that is cut goes to the front. */
static bool bring_forward(struct zt_expansion *x, int *value, int64_t axis, struct zt_err *err) {
    int64_t perm[ZT_MAX_RANK] = { axis };
    const int rank = x->g->values[*value]->shape.rank, from = *value;
    for (int k = 0, at = 1; k < rank; k++)
        if (k != axis)
            perm[at++] = k;
    *value = -1;
    return emit_transpose(x, from, perm, rank, value, err);
}

/* From the front to where it belongs. */
static bool bring_back(struct zt_expansion *x, int from, int64_t axis, int rank, int to, struct zt_err *err) {
    int64_t perm[ZT_MAX_RANK];
    for (int k = 0, at = 1; k < rank; k++)
        perm[k] = k == axis ? 0 : at++;
    return emit_transpose(x, from, perm, rank, &to, err);
}

static int rank_of_stack(const struct zt_graph *body, const struct zt_loop *l, int i) {
    return body->values[body->outputs[l->states + i]]->shape.rank + 1;
}

static bool emit_node(struct zt_expansion *x, const struct zt_loop *l, const struct zt_graph *body, const int *in,
                      const int *out, struct zt_err *err) {
    const struct zt_attr attrs[] = {
        { .name = "body", .type = ZT_ATTR_GRAPH, .graph = body },
        { .name = "iterations", .type = ZT_ATTR_INT, .i = l->iterations },
        { .name = "states", .type = ZT_ATTR_INT, .i = l->states },
        { .name = "reverse_in", .type = ZT_ATTR_INTS, .count = l->slices, .ints = l->reverse_in },
        { .name = "reverse_out", .type = ZT_ATTR_INTS, .count = l->stacks, .ints = l->reverse_out },
    };
    const int in_count = body->input_count - 1; /* the iteration number is no input of the node */
    return zt_expand_emit_own(x,
                              &(struct zt_expand_node){ "LoopRun", in, in_count, attrs, sizeof attrs / sizeof *attrs },
                              out, l->states + l->stacks, err);
}

static bool emit(struct zt_expansion *x, const struct zt_loop *l, const struct zt_graph *body, const int *captured,
                 struct zt_err *err) {
    struct zt_arena *arena = x->g->arena;
    const int count = body->input_count - 1;
    int *in = ZT_NEW_N(arena, int, count + 1), *out = ZT_NEW_N(arena, int, l->states + l->stacks + 1);
    for (int i = 0; i < count; i++)
        in[i] = i < l->states               ? l->state[i]
                : i < l->states + l->slices ? l->slice[i - l->states]
                                            : captured[i - l->states - l->slices];
    memcpy(out, l->out, (size_t)(l->states + l->stacks) * sizeof *out);
    for (int i = 0; i < l->slices; i++)
        if (l->axis_in[i] && !bring_forward(x, &in[l->states + i], l->axis_in[i], err))
            return false;
    for (int i = 0; i < l->stacks; i++)
        if (l->axis_out[i] && out[l->states + i] >= 0)
            out[l->states + i] = zt_graph_add_value(x->g, NULL, ZT_UNDEFINED, NULL);
    if (!emit_node(x, l, body, in, out, err))
        return false;
    for (int i = 0; i < l->stacks; i++)
        if (l->axis_out[i] && l->out[l->states + i] >= 0 &&
            !bring_back(x, out[l->states + i], l->axis_out[i], rank_of_stack(body, l, i), l->out[l->states + i], err))
            return false;
    return true;
}

/* ---- the choice ---- */

static bool check_runs(const struct zt_expansion *x, const struct zt_loop *l, double nodes, struct zt_err *err) {
    return (double)l->iterations * nodes <= ZT_LOOP_RUNS ||
           zt_node_fail(x->g, x->node, err,
                        "runs %lld iterations of %.0f nodes, which is %.0f nodes to run; the limit of a loop is %d",
                        (long long)l->iterations, nodes, (double)l->iterations * nodes, ZT_LOOP_RUNS);
}

/* Axes of the stacks count from the end where they are negative. */
static bool settle_axes(const struct zt_expansion *x, struct zt_loop *l, const struct zt_graph *body,
                        struct zt_err *err) {
    int64_t *axes = ZT_NEW_N(x->g->arena, int64_t, l->stacks + 1);
    for (int i = 0, axis; i < l->stacks; i++) {
        if (!zt_ops_rank(x->g, x->node, rank_of_stack(body, l, i), err) ||
            !zt_axis(x->g, x->node, l->axis_out[i], rank_of_stack(body, l, i), &axis, err))
            return false;
        axes[i] = axis;
    }
    l->axis_out = axes;
    return true;
}

bool zt_loop_try(struct zt_expansion *x, const struct zt_loop *loop, int more, bool *runs, struct zt_err *err) {
    const struct zt_lower_count count = zt_expand_count(x, "body");
    struct zt_loop l = *loop;
    struct zt_err why = { 0 };
    int *captured;
    *runs = false;
    if (!check_runs(x, &l, count.nodes, err))
        return false;
    if (l.iterations < 3 || (count.bodies == 0 && (double)l.iterations * (count.nodes + more) <= ZT_LOOP_WRITTEN))
        return true;
    const struct zt_graph *body = make_iteration(x, &l, &captured, &why);
    if (!body && l.condition && x->settler->run && (double)l.iterations * (count.nodes + more) > ZT_LOOP_WRITTEN)
        return (*runs = true) && zt_loop_alone(x, &l, err);
    if (!body)
        return zt_expand_fits(x, "body", l.iterations, more, err) ||
               zt_hint(err, "it cannot run as a loop: %s", why.text[0]);
    if (!check_runs(x, &l, runs_of(body), err))
        return false;
    if ((double)l.iterations * (weight_of(body) + more) <= ZT_LOOP_WRITTEN)
        return true;
    *runs = true;
    return settle_axes(x, &l, body, err) && emit(x, &l, body, captured, err);
}
