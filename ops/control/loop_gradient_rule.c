/* The gradient rule of loops that run as loops (ops/control/loop.h).
 *
 * The gradient goes back over the iterations. Of an iteration it needs what the iteration began with: the states of all
 * iterations are computed once more, in workspace, and the rest of an iteration again just before its gradient:
 *
 *     v[0] = v;  for (t = 0; t + 1 < T; t++) v[t + 1] = body(t, v[t], x[t], c)                        states alone
 *     for (t = T - 1; t >= 0; t--) { dv, dx[t], e = gradient(t, v[t], x[t], c, dv, ds[t]);  dc += e; }
 *
 * `gradient` is the body and what autograd makes of it, one graph. Sums over iterations are in float (double of
 * doubles), the last iteration first. */
#include "ops/control/loop.h"

#include "graph/passes/grad.h"

#include <string.h>

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

/* Lists the outputs. A gradient without a path is omitted; that of a state is zeros. */
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

bool zt_loop_gradient(struct zt_grad *b, int node, struct zt_err *err) {
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
