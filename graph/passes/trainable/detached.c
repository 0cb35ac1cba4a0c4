/* Positions at which gradients stop. PyTorch's detach() and JAX's stop_gradient() compute nothing, and only some
 * exporters leave a trace of them:
 *
 *     torch, dynamo, optimize=False    Identity, traced as aten.detach
 *     torch, dynamo, optimized         the Identity is gone, but the traced call of what read it still names it:
 *                                          Mul(tanh, tanh)    mul(%tanh, %detach)
 *                                      that argument is the input in its place where the call has an argument for each
 *                                      input of the node, and the others are what the node reads
 *     jax2onnx                         Identity, whose output is called stop_out_N
 *     torch, TorchScript, or dynamo
 *     without its metadata             none, but z + (q - z) makes no sense without: a straight-through estimate, where
 * q is computed from z and passes it no gradient (rounding, the nearest of some vectors, the one-hot of the largest).
 * The difference is what was detached
 *
 * Such an input is read through ztrain.Detach, which has no gradient. */
#include "base/vec.h"
#include "graph/ir/functions.h"
#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"

#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS = 16 }; /* of one call; more are not looked at */

/* A traced call: "%mul : [num_users=1] = call_function[target=...](args = (%tanh, %detach), kwargs = {})". */
struct call {
    const char *name, *argument[ARGUMENTS];
    int count;
};

static bool is_detach(const char *name) {
    return strcmp(name, "detach") == 0 || zt_torch_is_numbered(name, "detach_");
}

static bool read_call(struct zt_arena *arena, const struct zt_node *n, struct call *to) {
    const char *at, *name;
    *to = (struct call){ .name = zt_torch_call(arena, n, &at) };
    while (at && to->count < ARGUMENTS && (name = zt_torch_next_argument(arena, &at)))
        to->argument[to->count++] = name;
    return to->name != NULL;
}

struct search {
    const struct zt_graph *g;
    struct call *calls;     /* of each node; name NULL: none is known */
    struct zt_map made;     /* names of calls that are nodes */
    struct zt_map restored; /* names of calls of which a node reads what is detached at a known place */
};

static void search_finish(struct search *s) {
    zt_map_finish(&s->made);
    zt_map_finish(&s->restored);
}

/* Whether argument k of the call is a detach() that the exporter removed. */
static bool is_removed(const struct search *s, const struct call *c, int k) {
    return is_detach(c->argument[k]) && !zt_map_get(&s->made, c->argument[k], 0);
}

/* Whether the node is the call itself: each input is made by the call that the argument in its place names, where that
 * is a node. */
static bool is_whole(const struct search *s, const struct zt_node *n, const struct call *c) {
    if (c->count != n->in_count)
        return false;
    for (int k = 0; k < c->count; k++) {
        const int from = n->in[k] >= 0 ? s->g->values[n->in[k]]->producer : -1;
        const char *maker = from >= 0 && from < s->g->node_count ? s->calls[from].name : NULL;
        if (zt_map_get(&s->made, c->argument[k], 0) && (!maker || strcmp(maker, c->argument[k]) != 0))
            return false;
    }
    return true;
}

/* Whether input k of node i is what was detached. */
static bool is_detached(const struct search *s, int i, int k) {
    const struct call *c = &s->calls[i];
    return k < c->count && is_removed(s, c, k) && is_whole(s, s->g->nodes[i], c) && s->g->nodes[i]->in[k] >= 0;
}

static void search_begin(struct search *s, struct zt_arena *arena, const struct zt_graph *g) {
    *s = (struct search){ .g = g, .calls = ZT_NEW_N(arena, struct call, g->node_count) };
    for (int i = 0; i < g->node_count; i++)
        if (!g->nodes[i]->dead && read_call(arena, g->nodes[i], &s->calls[i]))
            zt_map_put(&s->made, s->calls[i].name, 1);
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < s->calls[i].count; k++)
            if (is_detached(s, i, k))
                zt_map_put(&s->restored, s->calls[i].name, 1);
}

/* ---- what is restored ---- */

static bool is_ours(const struct zt_node *n) {
    return strcmp(n->op_type, "Detach") == 0 && strcmp(n->domain, "ztrain") == 0;
}

/* Makes input `in` of the node read its value through ztrain.Detach, once. */
static void detach(struct zt_graph *g, struct zt_node *n, int in) {
    const int from = g->values[n->in[in]]->producer;
    if (from >= 0 && is_ours(g->nodes[from]))
        return;
    const char *name = zt_arena_printf(g->arena, "%s.detach", n->name);
    int out = zt_graph_add_value(g, zt_arena_printf(g->arena, "%s.%d", name, in), ZT_UNDEFINED, NULL);
    const int node =
        zt_graph_add_node(g, &(struct zt_node_spec){ name, "Detach", "ztrain", 1, &n->in[in], 1, &out, 1 });
    g->nodes[node]->place = n->place;
    n->in[in] = out;
}

/* Whether the node is a detach() or stop_gradient() that the exporter kept. */
static bool stops(const struct zt_graph *g, const struct zt_node *n, enum zt_writer writer) {
    if (!zt_node_is(n, "Identity") || n->in_count != 1 || n->in[0] < 0)
        return false;
    if (writer == ZT_WRITER_JAX) {
        const char *name = g->values[n->out[0]]->name, *part = strrchr(name, '/'); /* behind the call of a function */
        return zt_torch_is_numbered(part ? part + 1 : name, "stop_out_");
    }
    return n->torch_fx_node && strstr(n->torch_fx_node, "target=torch.ops.aten.detach.");
}

/* ---- straight-through estimates ---- */

/* Whether the operator has no gradient. */
static bool has_no_gradient(const struct zt_node *n) {
    static const char *const without[] = { "Round",  "Floor", "Ceil",    "Sign", "ArgMax",         "ArgMin",
                                           "OneHot", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual",
                                           "Not",    "Shape", "Size",    NULL };
    return zt_node_is_any(n, without);
}

/* Whether a gradient passes from output `out` of the node to its input `in`. */
static bool passes(const struct zt_node *n, int out, int in) {
    static const char *const by_index[] = {
        "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", NULL
    };
    if (has_no_gradient(n) || (zt_node_is(n, "TopK") && out != n->out[0]))
        return false;
    return !(in == 1 && zt_node_is_any(n, by_index)) && !(in == 0 && zt_node_is(n, "Where"));
}

enum { ANY_PARAMETER = -1, NO_SOURCE = -2 };

static bool is_source(const struct zt_graph *g, int value, int source) {
    const struct zt_value *v = g->values[value];
    return source == ANY_PARAMETER ? v->origin == ZT_FROM_INITIALIZER && v->trainable : value == source;
}

/* Whether `value` is computed from `source`, with `smooth` so that a gradient passes. `seen`: of each value. */
static bool comes_from(const struct zt_graph *g, int value, int source, bool smooth, bool *seen) {
    int *stack = zt_malloc(((size_t)g->value_count + 1) * sizeof *stack), count = 0;
    memset(seen, 0, (size_t)g->value_count * sizeof *seen);
    stack[count++] = value;
    while (count > 0 && !is_source(g, stack[count - 1], source)) {
        const int v = stack[--count], from = g->values[v]->producer;
        const struct zt_node *n = from >= 0 ? g->nodes[from] : NULL;
        for (int i = 0; n && i < n->in_count; i++)
            if (n->in[i] >= 0 && !seen[n->in[i]] && (!smooth || passes(n, v, i))) {
                seen[n->in[i]] = true;
                stack[count++] = n->in[i];
            }
    }
    free(stack);
    return count > 0;
}

/* The value of which this one is a copy, also over more elements. */
static int behind_copies(const struct zt_graph *g, int value) {
    static const char *const copies[] = { "Identity", "Expand", NULL };
    while (g->values[value]->producer >= 0 && zt_node_is_any(g->nodes[g->values[value]->producer], copies))
        value = g->nodes[g->values[value]->producer]->in[0];
    return value;
}

/* Whether input k of the sum z + (q - z) is the difference, and q stands for z without a gradient. */
static bool is_straight_through(const struct zt_graph *g, const struct zt_node *n, int k, bool *seen) {
    if (!zt_node_is(n, "Add") || k > 1 || n->in[k] < 0)
        return false;
    const int z = n->in[1 - k], from = g->values[n->in[k]]->producer;
    const struct zt_node *difference = from >= 0 ? g->nodes[from] : NULL;
    if (!zt_node_is(difference, "Sub") || difference->in[1] != z)
        return false;
    const int source = behind_copies(g, z);
    return comes_from(g, difference->in[0], source, false, seen) &&
           !comes_from(g, difference->in[0], source, true, seen);
}

/* Whether the node is (q + z) - z, whose z are computed, and q passes them no gradient. */
static bool takes_again(const struct zt_graph *g, const struct zt_node *n, bool *seen) {
    const int from = zt_node_is(n, "Sub") && n->in[0] >= 0 && n->in[1] >= 0 ? g->values[n->in[0]]->producer : -1;
    const struct zt_node *sum = from >= 0 ? g->nodes[from] : NULL;
    if (!zt_node_is(sum, "Add") || (sum->in[0] != n->in[1]) == (sum->in[1] != n->in[1]))
        return false;
    const int z = n->in[1], q = sum->in[0] == z ? sum->in[1] : sum->in[0];
    return g->values[z]->producer >= 0 && !comes_from(g, q, z, true, seen);
}

static void detach_estimates(struct zt_graph *g) {
    const int nodes = g->node_count;
    bool *seen = zt_malloc((size_t)g->value_count + 1);
    for (int i = 0; i < nodes; i++)
        for (int k = 0; k < g->nodes[i]->in_count; k++)
            if (!g->nodes[i]->dead &&
                (is_straight_through(g, g->nodes[i], k, seen) || (k == 1 && takes_again(g, g->nodes[i], seen)))) {
                detach(g, g->nodes[i], k);
                seen = zt_realloc(seen, (size_t)g->value_count + 1);
            }
    free(seen);
}

static bool detach_in(struct zt_graph *g, enum zt_writer writer);

/* Gives the node graphs of its own where gradients stop inside of them. */
static bool detach_in_bodies(const struct zt_graph *g, struct zt_node *n, enum zt_writer writer) {
    bool any = false;
    for (int i = 0; i < n->attr_count; i++) {
        const struct zt_graph *body = n->attr[i].graph;
        struct zt_graph *to = body ? zt_graph_clone_in(g->arena, body) : NULL;
        if (!to)
            continue;
        to->captured = body->captured;
        to->captured_count = body->captured_count;
        const bool found = detach_in(to, writer);
        zt_graph_settle(to);
        n->attr[i].graph = found ? to : body;
        any |= found;
    }
    return any;
}

/* Returns whether something was detached, in the graph or in those of its nodes. */
static bool detach_in(struct zt_graph *g, enum zt_writer writer) {
    const int nodes = g->node_count;
    bool inside = false;
    struct zt_err none = { 0 };
    struct search s;
    search_begin(&s, g->arena, g);
    if (writer == ZT_WRITER_TORCHSCRIPT || writer == ZT_WRITER_STRIPPED)
        detach_estimates(g);
    for (int i = 0; i < nodes && (writer == ZT_WRITER_DYNAMO || writer == ZT_WRITER_JAX); i++) {
        if (!g->nodes[i]->dead && stops(g, g->nodes[i], writer))
            detach(g, g->nodes[i], 0);
        for (int k = 0; k < s.calls[i].count; k++)
            if (is_detached(&s, i, k))
                detach(g, g->nodes[i], k);
    }
    for (int i = 0; i < nodes; i++)
        inside |= !g->nodes[i]->dead && detach_in_bodies(g, g->nodes[i], writer);
    const bool found = g->node_count > nodes;
    if (found)
        zt_graph_sort(g, &none); /* a graph stays sorted where a value is read through one more node */
    search_finish(&s);
    return found || inside;
}

void zt_pass_detach(struct zt_graph *g, const struct zt_onnx *model) {
    const enum zt_writer writer = zt_writer_of(model);
    if (writer == ZT_WRITER_TORCHSCRIPT || writer == ZT_WRITER_STRIPPED || writer == ZT_WRITER_DYNAMO ||
        writer == ZT_WRITER_JAX)
        detach_in(g, writer);
}

/* ---- what is lost ---- */

/* Whether the node is a sum or difference of one value with itself, made of two by the call: the exporter merges what
 * is computed alike, as a / 2 + detach(a) / 2, which scales a gradient. Nobody writes such a sum without detach(). */
static bool is_of_merged(const struct search *s, const struct zt_node *n, const struct call *c) {
    static const char *const sums[] = { "Add", "Sub", NULL };
    return zt_node_is_any(n, sums) && c->count == 2 && n->in[0] >= 0 && n->in[0] == n->in[1] &&
           strcmp(c->argument[0], c->argument[1]) != 0 &&
           zt_map_get(&s->made, c->argument[0], 0) != zt_map_get(&s->made, c->argument[1], 0);
}

/* Whether no gradient can pass the node: of a TopK, where only the places are read, as of argsort(). */
static bool passes_none(const struct zt_graph *g, const struct zt_node *n) {
    if (!zt_node_is(n, "TopK"))
        return has_no_gradient(n);
    for (int i = 0; i < g->output_count; i++)
        if (g->outputs[i] == n->out[0])
            return false;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i]->in_count && !g->nodes[i]->dead; k++)
            if (g->nodes[i]->in[k] >= 0 && g->nodes[i]->in[k] == n->out[0])
                return false;
    return true;
}

struct flows {
    const char **at;
    int count, room;
};

static void find_flows(struct zt_arena *arena, const struct zt_graph *g, struct flows *to) {
    struct search s;
    search_begin(&s, arena, g);
    for (int i = 0; i < g->node_count; i++) {
        bool removed = !g->nodes[i]->dead && is_of_merged(&s, g->nodes[i], &s.calls[i]);
        for (int k = 0; k < s.calls[i].count && !removed; k++)
            removed = is_removed(&s, &s.calls[i], k) && !passes_none(g, g->nodes[i]);
        if (removed && !zt_map_get(&s.restored, s.calls[i].name, 0)) {
            zt_map_put(&s.restored, s.calls[i].name, 1); /* once is enough */
            zt_vec_push(to, s.calls[i].name);
        }
        for (int k = 0; k < g->nodes[i]->attr_count; k++)
            if (g->nodes[i]->attr[k].graph)
                find_flows(arena, g->nodes[i]->attr[k].graph, to);
    }
    search_finish(&s);
}

int zt_trainable_flows(const struct zt_onnx *model, const char ***names) {
    const struct zt_graph *g = model->graph;
    struct flows list = { 0 };
    if (zt_writer_of(model) == ZT_WRITER_DYNAMO) {
        find_flows(g->arena, g, &list);
        for (int i = 0; g->functions && i < g->functions->count; i++)
            find_flows(g->arena, g->functions->at[i].body, &list);
    }
    const int count = list.count;
    *names = zt_vec_copy(g->arena, &list);
    zt_vec_finish(&list);
    return count;
}

/* Whether the node is a difference of the two, in either order. behind: behind_copies() of each value. */
static bool is_between(const struct zt_node *n, const int *behind, int q, int z) {
    if (n->dead || !zt_node_is(n, "Sub") || n->in[0] < 0 || n->in[1] < 0)
        return false;
    const int a = behind[n->in[0]], b = behind[n->in[1]];
    return (a == q && b == z) || (a == z && b == q);
}

/* The difference in z + detach(q - z) that a node detaches; NULL: it is no such node. */
static const struct zt_node *estimate_of(const struct zt_graph *g, const struct zt_node *n) {
    const int from = !n->dead && is_ours(n) ? g->values[n->in[0]]->producer : -1;
    return from >= 0 && zt_node_is(g->nodes[from], "Sub") ? g->nodes[from] : NULL;
}

/* Marks `value` and what is computed from it so that a gradient passes. */
static void mark_below(const struct zt_graph *g, int value, bool *below) {
    memset(below, 0, (size_t)g->value_count * sizeof *below);
    below[value] = true;
    for (int n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count && !g->nodes[n]->dead; i++)
            for (int k = 0; k < g->nodes[n]->out_count && g->nodes[n]->in[i] >= 0 && below[g->nodes[n]->in[i]]; k++)
                if (g->nodes[n]->out[k] >= 0 && passes(g->nodes[n], g->nodes[n]->out[k], i))
                    below[g->nodes[n]->out[k]] = true;
}

/* What is before and behind an estimate, with a gradient: of each value. */
struct sides {
    bool *above, *below;
};

/* Whether the node takes what comes from an estimate from what it is an estimate of, as residual quantization does. */
static bool is_residual(const struct zt_graph *g, const struct zt_node *n, const struct sides *sides, bool *seen) {
    if (n->dead || !zt_node_is(n, "Sub") || n->in[0] < 0 || n->in[1] < 0)
        return false;
    const int z = sides->below[n->in[1]] ? n->in[0] : sides->below[n->in[0]] ? n->in[1] : -1;
    return z >= 0 && sides->above[z] && comes_from(g, z, ANY_PARAMETER, true, seen);
}

int zt_trainable_undetached(const struct zt_onnx *model, const struct zt_graph *g, const char ***names) {
    const enum zt_writer writer = zt_writer_of(model);
    const size_t values = (size_t)g->value_count + 1;
    int count = 0, *behind = zt_malloc(values * sizeof *behind);
    bool *seen = zt_malloc(values);
    struct sides sides = { zt_malloc(values), zt_malloc(values) };
    *names = ZT_NEW_N(g->arena, const char *, g->node_count);
    for (int v = 0; v < g->value_count; v++)
        behind[v] = behind_copies(g, v);
    for (int d = 0; d < g->node_count && (writer == ZT_WRITER_TORCHSCRIPT || writer == ZT_WRITER_STRIPPED); d++) {
        const struct zt_node *estimate = estimate_of(g, g->nodes[d]);
        const int q = estimate ? behind[estimate->in[0]] : -1, z = estimate ? behind[estimate->in[1]] : -1;
        if (!estimate)
            continue;
        const bool trained = comes_from(g, q, ANY_PARAMETER, true, seen);
        comes_from(g, estimate->in[1], NO_SOURCE, true, sides.above);
        sides.above[estimate->in[1]] = true;
        mark_below(g, g->nodes[d]->out[0], sides.below);
        for (int n = 0; n < g->node_count && count < g->node_count; n++)
            if (g->nodes[n] != estimate &&
                ((trained && is_between(g->nodes[n], behind, q, z)) || is_residual(g, g->nodes[n], &sides, seen)))
                (*names)[count++] = g->nodes[n]->name;
    }
    free(sides.above);
    free(sides.below);
    free(seen);
    free(behind);
    return count;
}
