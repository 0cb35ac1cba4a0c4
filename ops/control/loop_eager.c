/* A Loop in an eager run whose results alone count (`ztrain predict`): each iteration is a graph of its own, run and
 * forgotten. So a condition may depend on data, states may grow, and nothing that an iteration computed stays. */
#include "ops/control/loop.h"

#include "graph/ir/list.h"
#include "ops/kernel/shape.h"

#include <stdlib.h>
#include <string.h>

/* Values, of which the tensors of a list are most, cost a fraction of what running a node does. */
enum { VALUES_A_NODE = 16 };

/* Output k of all iterations so far, one behind the other. */
struct pile {
    enum zt_dtype dtype;
    struct zt_shape shape; /* of one */
    char *at;
    size_t bytes, room;
};

struct alone {
    struct zt_expansion *x;
    const struct zt_loop *l;
    struct zt_graph *last; /* the iteration before, which holds `now`; NULL: none yet, x->g does */
    int *now;              /* the condition (-1: true), the states */
    struct pile *piles;
    double nodes; /* run so far */
    int64_t iteration;
    struct zt_err *err;
};

/* The graph that holds a->now. */
static struct zt_graph *holder(const struct alone *a) {
    return a->last ? a->last : a->x->g;
}

/* A state in the graph of an iteration. The tensors of a list lie in the arena of x->g, a single tensor in the
 * iteration before. */
static int copy_state(const struct alone *a, struct zt_graph *g, int value) {
    const bool list = holder(a)->values[value]->list != NULL;
    return zt_list_copy(g, holder(a), value, list || !a->last ? ZT_FROM_OUTSIDE : ZT_FROM_CONSTANT);
}

/* The iteration's graph, its values known, its nodes not yet run; out: ids of what it hands out. */
static bool open_iteration(const struct alone *a, struct zt_graph *g, int *out) {
    const struct zt_node *n = a->x->g->nodes[a->x->node];
    const bool yes = true;
    int *in = ZT_NEW_N(g->arena, int, a->l->states + 2), *captured = ZT_NEW_N(g->arena, int, n->captured + 1);
    in[0] = zt_graph_add_constant(g, NULL, ZT_INT64, &(struct zt_shape){ 0 }, &a->iteration);
    in[1] = zt_graph_add_constant(g, NULL, ZT_BOOL, &(struct zt_shape){ 0 }, &yes);
    for (int i = 0; i < a->l->states; i++)
        in[2 + i] = copy_state(a, g, a->now[1 + i]);
    for (int i = 0; i < n->captured; i++)
        captured[i] = zt_list_copy(g, a->x->g, n->in[n->in_count - n->captured + i], ZT_FROM_OUTSIDE);
    g->functions = a->x->g->functions;
    memset(out, -1, (size_t)(1 + a->l->states + a->l->stacks) * sizeof *out);
    return zt_expand_open(a->x, "body", &(struct zt_expand_target){ g, in, captured }, out, a->err) &&
           zt_graph_sort(g, a->err);
}

static bool pile_up(const struct alone *a, struct pile *p, const struct zt_value *v) {
    const size_t bytes = (size_t)zt_value_bytes(v);
    if (v->list)
        return zt_node_fail(a->x->g, a->x->node, a->err, "\"%s\" is stacked, but is not a tensor", v->name);
    if (!a->iteration)
        *p = (struct pile){ .dtype = v->dtype, .shape = v->shape };
    if (v->dtype != p->dtype || !zt_shape_equal(&v->shape, &p->shape))
        return zt_node_fail(a->x->g, a->x->node, a->err, "\"%s\" is not the same in iterations 0 and %lld", v->name,
                            (long long)a->iteration);
    if (p->bytes + bytes > p->room) {
        p->room = 2 * (p->bytes + bytes);
        p->at = zt_realloc(p->at, p->room);
    }
    if (bytes)
        memcpy(p->at + p->bytes, v->data, bytes);
    p->bytes += bytes;
    return true;
}

/* Moves what later iterations read out of the arenas that end before them: a tensor that the iteration was given lies
 * in the iteration before; those of a list stay for the whole loop, so that a growing sequence is not copied each time.
 */
static void save_state(const struct alone *a, struct zt_graph *g, int value) {
    struct zt_value *v = g->values[value];
    if (!v->list && v->origin == ZT_FROM_CONSTANT)
        v->data = zt_arena_copy(g->arena, v->data, (size_t)zt_value_bytes(v));
    for (int i = 0, of; v->list && (of = zt_list_tensor(g, value, i)) >= 0; i++) {
        struct zt_value *t = g->values[of];
        if (t->origin != ZT_FROM_OUTSIDE)
            t->data = zt_arena_copy(a->x->g->arena, t->data, (size_t)zt_value_bytes(t));
        t->origin = ZT_FROM_OUTSIDE;
    }
}

static bool keep(struct alone *a, struct zt_graph *g, const int *out) {
    for (int i = 0; i <= a->l->states; i++) {
        save_state(a, g, out[i]);
        a->now[i] = out[i];
    }
    for (int k = 0; k < a->l->stacks; k++)
        if (!pile_up(a, &a->piles[k], g->values[out[1 + a->l->states + k]]))
            return false;
    zt_graph_destroy(a->last);
    a->last = g;
    return true;
}

static bool run_iteration(struct alone *a) {
    struct zt_graph *g = zt_graph_create("iteration");
    int *out = ZT_NEW_N(g->arena, int, 1 + a->l->states + a->l->stacks);
    bool ok = open_iteration(a, g, out);
    a->nodes += ok ? g->node_count + (double)g->value_count / VALUES_A_NODE : 0;
    if (ok && a->nodes > ZT_LOOP_RUNS)
        ok = zt_node_fail(a->x->g, a->x->node, a->err,
                          "has run %.0f nodes in %lld iterations; the limit of a loop is %d", a->nodes,
                          (long long)a->iteration, ZT_LOOP_RUNS);
    ok = ok && a->x->settler->run(a->x->settler->with, g, a->err) && keep(a, g, out);
    if (!ok)
        zt_graph_destroy(g);
    return ok;
}

static bool goes_on(const struct alone *a, bool *yes) {
    *yes = a->iteration < a->l->iterations;
    if (a->now[0] < 0)
        return true;
    const struct zt_value *c = holder(a)->values[a->now[0]];
    if (zt_shape_count(&c->shape) != 1)
        return zt_node_fail(a->x->g, a->x->node, a->err, "its condition is not one number");
    *yes &= zt_load_int(c->dtype, c->data, 0) != 0;
    return true;
}

/* Outputs of the node become known. */
static void hand_out_state(const struct alone *a, int from, int to) {
    struct zt_graph *g = a->x->g;
    const struct zt_value *state = holder(a)->values[from];
    struct zt_value *v = g->values[to];
    v->list = NULL;
    v->origin = ZT_FROM_CONSTANT;
    if (state->list) {
        const int copy = a->last ? zt_list_copy(g, a->last, from, ZT_FROM_CONSTANT) : from;
        zt_list_set(g, to, g->values[copy]->list);
        return;
    }
    v->dtype = state->dtype;
    v->shape = state->shape;
    v->data = zt_arena_copy(g->arena, state->data, (size_t)zt_value_bytes(state));
}

static void hand_out_pile(const struct alone *a, const struct pile *p, int to) {
    struct zt_graph *g = a->x->g;
    struct zt_value *v = g->values[to];
    struct zt_shape shape = { p->shape.rank + 1, { a->iteration } };
    memcpy(shape.dim + 1, p->shape.dim, (size_t)p->shape.rank * sizeof *shape.dim);
    v->list = NULL;
    v->origin = ZT_FROM_CONSTANT;
    v->dtype = p->dtype;
    v->shape = shape;
    v->data = zt_arena_copy(g->arena, p->at, (size_t)zt_value_bytes(v));
}

static void hand_out(const struct alone *a) {
    for (int i = 0; i < a->l->states + a->l->stacks; i++) {
        if (a->l->out[i] < 0)
            continue;
        if (i < a->l->states)
            hand_out_state(a, a->now[1 + i], a->l->out[i]);
        else
            hand_out_pile(a, &a->piles[i - a->l->states], a->l->out[i]);
    }
}

static bool check_ranks(const struct alone *a) {
    for (int k = 0; k < a->l->stacks; k++)
        if (!zt_ops_rank(a->x->g, a->x->node, a->piles[k].shape.rank + 1, a->err))
            return false;
    return true;
}

bool zt_loop_alone(struct zt_expansion *x, const struct zt_loop *l, struct zt_err *err) {
    struct alone a = { .x = x, .l = l, .err = err };
    bool yes = false, ok;
    a.now = zt_calloc((size_t)l->states + 1, sizeof *a.now);
    a.now[0] = -1;
    a.piles = zt_calloc((size_t)l->stacks + 1, sizeof *a.piles);
    for (int i = 0; i < l->states; i++)
        a.now[1 + i] = l->state[i];
    while ((ok = goes_on(&a, &yes)) && yes && (ok = run_iteration(&a)))
        a.iteration++;
    ok = ok && check_ranks(&a);
    if (ok)
        hand_out(&a);
    zt_graph_destroy(a.last);
    for (int k = 0; k < l->stacks; k++)
        free(a.piles[k].at);
    free(a.piles);
    free(a.now);
    return ok;
}
