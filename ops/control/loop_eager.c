/* A Loop in an eager run whose results alone count (`ztrain predict`): each iteration is a graph of its own, run and
 * forgotten. So a condition may depend on data, states may grow, and nothing that an iteration computed stays. */
#include "ops/control/loop.h"
#include "ops/kernel/shape.h"

#include <stdlib.h>
#include <string.h>

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
    struct zt_graph *last; /* the iteration before, which holds `now`; NULL: none yet */
    struct zt_tensor *now; /* the condition, the states */
    struct pile *piles;
    double nodes; /* run so far */
    int64_t iteration;
    struct zt_err *err;
};

static int add_known(struct zt_graph *g, const struct zt_tensor *t) {
    const int id = zt_graph_add_value(g, NULL, t->dtype, &t->shape);
    g->values[id]->origin = ZT_FROM_CONSTANT;
    g->values[id]->data = t->data;
    return id;
}

static struct zt_tensor tensor_of(const struct zt_value *v) {
    return (struct zt_tensor){ v->dtype, v->shape, v->data };
}

/* The iteration's graph, its values known, its nodes not yet run; out: ids of what it hands out. */
static bool open_iteration(const struct alone *a, struct zt_graph *g, int *out) {
    const struct zt_node *n = a->x->g->nodes[a->x->node];
    const bool yes = true;
    int *in = ZT_NEW_N(g->arena, int, a->l->states + 2), *captured = ZT_NEW_N(g->arena, int, n->captured + 1);
    in[0] = zt_graph_add_constant(g, NULL, ZT_INT64, &(struct zt_shape){ 0 }, &a->iteration);
    in[1] = zt_graph_add_constant(g, NULL, ZT_BOOL, &(struct zt_shape){ 0 }, &yes);
    for (int i = 0; i < a->l->states; i++)
        in[2 + i] = add_known(g, &a->now[1 + i]);
    for (int i = 0; i < n->captured; i++) {
        const struct zt_tensor outside = tensor_of(a->x->g->values[n->in[n->in_count - n->captured + i]]);
        captured[i] = add_known(g, &outside);
    }
    g->functions = a->x->g->functions;
    memset(out, -1, (size_t)(1 + a->l->states + a->l->stacks) * sizeof *out);
    return zt_expand_open(a->x, "body", &(struct zt_expand_target){ g, in, captured }, out, a->err) &&
           zt_graph_sort(g, a->err);
}

static bool pile_up(const struct alone *a, struct pile *p, const struct zt_value *v) {
    const size_t bytes = (size_t)zt_value_bytes(v);
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

/* What the iteration hands out: what it was given itself lies in the iteration before. */
static bool keep(struct alone *a, struct zt_graph *g, const int *out) {
    for (int i = 0; i <= a->l->states; i++) {
        const struct zt_value *v = g->values[out[i]];
        a->now[i] = tensor_of(v);
        if (v->origin != ZT_FROM_NODE)
            a->now[i].data = zt_arena_copy(g->arena, v->data, (size_t)zt_value_bytes(v));
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
    a->nodes += ok ? g->node_count : 0;
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
    const struct zt_tensor *c = &a->now[0];
    *yes = a->iteration < a->l->iterations;
    if (!c->data)
        return true;
    if (zt_shape_count(&c->shape) != 1)
        return zt_node_fail(a->x->g, a->x->node, a->err, "its condition is not one number");
    *yes &= zt_load_int(c->dtype, c->data, 0) != 0;
    return true;
}

/* Outputs of the node become known. */
static void hand_out(const struct alone *a) {
    struct zt_graph *g = a->x->g;
    for (int i = 0; i < a->l->states + a->l->stacks; i++) {
        if (a->l->out[i] < 0)
            continue;
        struct zt_value *v = g->values[a->l->out[i]];
        const bool stack = i >= a->l->states;
        struct pile *p = stack ? &a->piles[i - a->l->states] : NULL;
        struct zt_shape shape = stack ? (struct zt_shape){ p->shape.rank + 1, { a->iteration } } : a->now[1 + i].shape;
        if (stack)
            memcpy(shape.dim + 1, p->shape.dim, (size_t)p->shape.rank * sizeof *shape.dim);
        v->dtype = stack ? p->dtype : a->now[1 + i].dtype;
        v->shape = shape;
        v->data = zt_arena_copy(g->arena, stack ? p->at : a->now[1 + i].data, (size_t)zt_value_bytes(v));
        v->origin = ZT_FROM_CONSTANT;
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
    a.piles = zt_calloc((size_t)l->stacks + 1, sizeof *a.piles);
    for (int i = 0; i < l->states; i++)
        a.now[1 + i] = tensor_of(x->g->values[l->state[i]]);
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
