/* Derived values, computed from the parameters once after every update: cast and packed weights. */
#include "run/rank/derive.h"

#include "device/module.h"
#include "ops/kernel/layout.h"
#include "run/rank/captured.h"
#include "run/rank/command.h"
#include "run/rank/times.h"

#include <string.h>

/* Whether the kernel for many casts supports the layout: plain, or channels last with sizes below 2^32. */
static bool is_laid(const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    return !v->layout || (zt_layout_is_last(v->layout) && count > 0 && count / v->shape.dim[0] <= INT32_MAX);
}

/* Whether a node casts a parameter to half precision. Its output has its own place, so that all casts can run together
 * before anything else. */
static bool is_param_cast(const struct zt_run_program *rp, int node) {
    const struct zt_graph *g = rp->program->training_graph.graph;
    const struct zt_node *n = g->nodes[node];
    const struct zt_ready *ready = &rp->ready[node];
    if (!ready->run || !(n->op->flags & ZT_OP_CAST) || n->in_count != 1)
        return false;
    const struct zt_value *x = g->values[n->in[0]], *y = g->values[n->out[0]];
    return x->dtype == ZT_FLOAT && !x->layout && zt_dtype_is_half(y->dtype) && is_laid(y) && ready->place[0] &&
           ready->place[1] && ready->place[0]->in == ZT_PARAMETERS && ready->place[1]->in == ZT_DERIVED;
}

/* Returns the cast node whose output this node converts to channels last, if others read the cast in plain layout; -1:
 * none. */
static int cast_below(const struct zt_run_program *rp, int node) {
    const struct zt_graph *g = rp->program->training_graph.graph;
    const struct zt_node *n = g->nodes[node];
    const struct zt_ready *ready = &rp->ready[node];
    if (!ready->run || !(n->op->flags & ZT_OP_REORDER) || g->values[n->in[0]]->origin != ZT_FROM_NODE ||
        !zt_layout_is_last(g->values[n->out[0]]->layout) || !ready->place[1] || ready->place[1]->in != ZT_DERIVED)
        return -1;
    const int below = g->values[n->in[0]]->producer;
    return is_laid(g->values[n->out[0]]) && is_param_cast(rp, below) ? below : -1;
}

void zt_rank_derive_create(struct zt_run_program *rp) {
    for (int i = 0; i < rp->program->derive_count; i++) {
        const struct zt_command *c = &rp->program->derive[i];
        if (c->kind == ZT_RUN_NODE)
            rp->ready[c->node].cast = is_param_cast(rp, c->node) ? c->node : cast_below(rp, c->node);
    }
}

/* Whether a command computes a parameter in half precision, plain or channels last, directly from the parameter. */
static bool is_cast(const struct zt_run_program *rp, const struct zt_command *c) {
    return c->kind == ZT_RUN_NODE && rp->ready[c->node].cast >= 0;
}

static struct zt_cast cast_of(struct zt_rank *r, const struct zt_run_program *rp, int node) {
    const struct zt_graph *g = rp->program->training_graph.graph;
    const struct zt_value *v = g->values[g->nodes[node]->out[0]];
    const struct zt_shape *x = &v->shape;
    const int from = rp->ready[node].cast;
    struct zt_cast cast = { .to = zt_rank_at(r, NULL, rp->ready[node].place[1], NULL),
                            .from = zt_rank_at(r, NULL, rp->ready[from].place[0], NULL),
                            .count = zt_shape_count(x) };
    if (v->layout) {
        cast.channels = (uint32_t)x->dim[1];
        cast.places = (uint32_t)(cast.count / x->dim[0] / x->dim[1]);
    }
    return cast;
}

/* Whether casts may run together: not if hashing or tracing reads every node. */
static bool joins_casts(const struct zt_rank *r) {
    return r->device_memory && !r->tracing && !r->hashing;
}

/* Casts from and to. */
struct casts {
    struct zt_cast at[96];
    int count;
    enum zt_dtype dtype;
};

/* Takes the next casts of the list from *at on; returns whether there are any. */
static bool take_casts(struct zt_rank *r, const struct zt_run_program *rp, int *at, struct casts *to) {
    const struct zt_program *p = rp->program;
    const struct zt_graph *g = p->training_graph.graph;
    to->count = 0;
    for (; *at < p->derive_count && to->count < (int)(sizeof to->at / sizeof *to->at); ++*at) {
        const struct zt_command *c = &p->derive[*at];
        if (is_cast(rp, c) && g->values[g->nodes[c->node]->out[0]]->dtype == to->dtype)
            to->at[to->count++] = cast_of(r, rp, c->node);
    }
    return to->count > 0;
}

static bool cast_all(struct zt_rank *r, const struct zt_action *a, struct zt_err *err) {
    static const enum zt_dtype halves[] = { ZT_BFLOAT16, ZT_FLOAT16 };
    for (int k = 0; k < 2; k++) {
        struct casts some = { .dtype = halves[k] };
        for (int at = 0; take_casts(r, a->program, &at, &some);)
            if (!r->device->module->cast_all(r->device, some.at, some.count, some.dtype == ZT_FLOAT16, err))
                return false;
    }
    return true;
}

/* The first node gets the time of all casts, the others none. */
static bool derive_casts(struct zt_rank *r, const struct zt_run_program *rp, struct zt_err *err) {
    const struct zt_program *p = rp->program;
    const struct zt_action all = { .run = cast_all, .program = rp };
    int first = 0;
    while (first < p->derive_count && !is_cast(rp, &p->derive[first]))
        first++;
    if (first == p->derive_count)
        return true;
    const double began = zt_rank_times_begin(r);
    if (!zt_rank_do(r, &all, err))
        return false;
    zt_rank_times_node(r, rp, p->derive[first].node, began);
    for (int i = first + 1; i < p->derive_count; i++)
        if (is_cast(rp, &p->derive[i]))
            zt_rank_times_node(r, rp, p->derive[i].node, zt_rank_times_begin(r));
    return true;
}

bool zt_rank_derive(struct zt_rank *r, const struct zt_run_program *rp, struct zt_err *err) {
    const struct zt_program *p = rp->program;
    if (!p->derive_count || r->derived_for == p) /* values derived for another program may still be read */
        return true;
    const bool joined = joins_casts(r);
    if (joined && !derive_casts(r, rp, err))
        return false;
    const struct zt_command_context at = { .program = rp, .last = true };
    for (int i = 0; i < p->derive_count; i++)
        if (!(joined && is_cast(rp, &p->derive[i])) && !zt_rank_command(r, &at, &p->derive[i], err))
            return false;
    r->derived_for = p;
    return true;
}
