/* The kernels of LoopRun and LoopRunGrad, forward and backward: the same for every back end, which gives the kernels of
 * the nodes in the body. */
#include "ops/control/loop.h"
#include "base/align.h"
#include "ops/control/loop_iteration.h"

#include <stdlib.h>
#include <string.h>

/* Tensors without elements may have no address. */
static void copy(void *to, const void *from, size_t bytes) {
    if (bytes)
        memcpy(to, from, bytes);
}

/* ---- workspace ---- */

static size_t bytes_of(const struct zt_value *v) {
    return (size_t)zt_value_bytes(v);
}

/* In the workspace. */
static size_t room_of(const struct zt_value *v) {
    return zt_align_64(bytes_of(v));
}

/* The workspace, handed out from its beginning; with `at` NULL it is only measured. */
struct room {
    char *at;
    size_t used;
};

static void *take(struct room *r, size_t bytes) {
    char *from = r->at ? r->at + r->used : NULL;
    r->used += zt_align_64(bytes);
    return from;
}

/* State of a prepared node. */
struct loop {
    struct zt_loop_shape l;
    struct zt_loop_iteration *forward, *backward; /* backward: of a LoopRunGrad, whose forward makes states alone */
};

/* State of a run. */
struct running {
    const struct loop *of;
    const struct zt_call *call;
    const void **in;    /* of an iteration */
    char **now, **next; /* by state: what an iteration begins with and what it makes; of a gradient: its cotangents */
    char **states;      /* gradient: by state, its values before each iteration */
    char **sums;        /* gradient: by wanted captured value */
    void *workspace;    /* of iterations */
    int64_t iteration;
};

static bool *what_stays(const struct zt_loop_shape *l, int inputs) {
    bool *stays = zt_calloc((size_t)inputs + 1, sizeof *stays);
    for (int i = 0; i < l->captured; i++)
        stays[1 + l->states + l->slices + i] = true;
    return stays;
}

void zt_loop_release(void *state) {
    struct loop *loop = state;
    if (!loop)
        return;
    zt_loop_iteration_destroy(loop->forward);
    zt_loop_iteration_destroy(loop->backward);
    free(loop);
}

static size_t sum_bytes(const struct zt_value *v) {
    return (size_t)zt_shape_count(&v->shape) * (v->dtype == ZT_DOUBLE ? sizeof(double) : sizeof(float));
}

/* Lays the workspace out; returns its size. */
static size_t arrange(struct running *r, const struct loop *loop, const struct zt_loop_gradient *d, void *workspace) {
    const struct zt_loop_shape *l = &loop->l;
    const size_t pointers = (size_t)(l->body->input_count + l->states + l->stacks + 1) * sizeof(void *);
    struct room room = { workspace, 0 };
    r->in = take(&room, pointers);
    r->now = take(&room, pointers);
    r->next = take(&room, pointers);
    r->states = take(&room, pointers);
    r->sums = take(&room, pointers);
    for (int i = 0; i < l->states; i++) {
        char *now = take(&room, bytes_of(zt_loop_in(l, i))), *next = take(&room, bytes_of(zt_loop_in(l, i)));
        char *states = d ? take(&room, (size_t)l->iterations * room_of(zt_loop_in(l, i))) : NULL;
        if (workspace) {
            r->now[i] = now;
            r->next[i] = next;
            r->states[i] = states;
        }
    }
    for (int i = 0; d && i < d->captured_count; i++) {
        char *sum = take(&room, sum_bytes(zt_loop_in(l, l->states + l->slices + (int)d->captured[i])));
        if (workspace)
            r->sums[i] = sum;
    }
    const size_t forward = loop->forward ? zt_loop_iteration_bytes(loop->forward) : 0;
    const size_t backward = loop->backward ? zt_loop_iteration_bytes(loop->backward) : 0;
    r->workspace = take(&room, forward > backward ? forward : backward);
    return room.used;
}

bool zt_loop_run_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct loop *loop = zt_calloc(1, sizeof *loop);
    struct running r;
    p->state = loop;
    zt_loop_shape_of(p->graph->nodes[p->node], &loop->l);
    bool *stays = what_stays(&loop->l, loop->l.body->input_count);
    loop->forward = zt_loop_iteration_create(loop->l.body, stays, p->backend, p->threads, err);
    free(stays);
    p->workspace_bytes = loop->forward ? arrange(&r, loop, NULL, NULL) : 0;
    return loop->forward || (zt_loop_release(loop), p->state = NULL, false);
}

bool zt_loop_grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct loop *loop = zt_calloc(1, sizeof *loop);
    struct running r;
    struct zt_loop_gradient d;
    zt_loop_gradient_of(p->graph->nodes[p->node], &d);
    p->state = loop;
    zt_loop_shape_of(p->graph->nodes[p->node], &loop->l);
    struct zt_graph states = *loop->l.body;
    states.output_count = loop->l.states;
    bool *stays = what_stays(&loop->l, d.graph->input_count);
    loop->forward = zt_loop_iteration_create(&states, stays, p->backend, p->threads, err);
    loop->backward = loop->forward ? zt_loop_iteration_create(d.graph, stays, p->backend, p->threads, err) : NULL;
    free(stays);
    p->workspace_bytes = loop->backward ? arrange(&r, loop, &d, NULL) : 0;
    return loop->backward || (zt_loop_release(loop), p->state = NULL, false);
}

/* Slices and the number of the iteration; states are the caller's. */
static void enter(struct running *r, int64_t iteration) {
    const struct zt_loop_shape *l = &r->of->l;
    r->iteration = iteration;
    r->in[0] = &r->iteration;
    for (int i = 0; i < l->slices; i++)
        r->in[1 + l->states + i] =
            zt_loop_slice(r->call->in[l->states + i].data, zt_value_bytes(zt_loop_in(l, l->states + i)), l->iterations,
                          iteration, l->reverse_in[i] != 0);
}

static struct zt_loop_at *begin(struct running *r, const struct zt_loop_iteration *iteration, struct zt_err *err) {
    const struct zt_loop_shape *l = &r->of->l;
    for (int i = 0; i < l->states; i++)
        r->in[1 + i] = r->call->in[i].data;
    for (int i = 0; i < l->captured; i++)
        r->in[1 + l->states + l->slices + i] = r->call->in[l->states + l->slices + i].data;
    return zt_loop_iteration_begin(iteration, r->call, r->workspace, r->in, err);
}

/* A slice of a stacked result. */
static void put_slice(void *whole, const void *slice, size_t bytes, int64_t iterations, int64_t iteration,
                      bool reverse) {
    if (whole)
        copy((void *)zt_loop_slice(whole, (int64_t)bytes, iterations, iteration, reverse), slice, bytes);
}

bool zt_loop_run(const struct zt_call *call, struct zt_err *err) {
    const struct loop *loop = call->state;
    const struct zt_loop_shape *l = &loop->l;
    struct running r = { .of = loop, .call = call };
    arrange(&r, loop, NULL, call->workspace);
    struct zt_loop_at *at = begin(&r, loop->forward, err);
    for (int64_t t = 0; at && t < l->iterations; t++) {
        enter(&r, t);
        if (!zt_loop_iteration_run(at, r.in, err))
            return false;
        for (int i = 0; i < l->stacks; i++)
            put_slice(call->out[l->states + i].data, zt_loop_iteration_out(at, r.in, l->states + i),
                      bytes_of(zt_loop_out(l, l->states + i)), l->iterations, t, l->reverse_out[i] != 0);
        for (int i = 0; i < l->states; i++)
            copy(r.next[i], zt_loop_iteration_out(at, r.in, i), bytes_of(zt_loop_in(l, i)));
        for (int i = 0; i < l->states; i++) {
            char *made = r.next[i];
            r.next[i] = r.now[i];
            r.in[1 + i] = r.now[i] = made;
        }
    }
    for (int i = 0; at && i < l->states; i++)
        if (call->out[i].data)
            copy(call->out[i].data, r.now[i], bytes_of(zt_loop_in(l, i)));
    return at != NULL;
}

/* The states that each iteration begins with. */
static bool keep_states(struct running *r, struct zt_err *err) {
    const struct zt_loop_shape *l = &r->of->l;
    struct zt_loop_at *at = l->states ? begin(r, r->of->forward, err) : NULL;
    for (int i = 0; i < l->states; i++)
        copy(r->states[i], r->call->in[i].data, bytes_of(zt_loop_in(l, i)));
    for (int64_t t = 0; at && t + 1 < l->iterations; t++) {
        enter(r, t);
        for (int i = 0; i < l->states; i++)
            r->in[1 + i] = r->states[i] + (size_t)t * room_of(zt_loop_in(l, i));
        if (!zt_loop_iteration_run(at, r->in, err))
            return false;
        for (int i = 0; i < l->states; i++)
            copy(r->states[i] + (size_t)(t + 1) * room_of(zt_loop_in(l, i)), zt_loop_iteration_out(at, r->in, i),
                 bytes_of(zt_loop_in(l, i)));
    }
    return at || !l->states;
}

static void add_to_sum(char *sum, const void *more, const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    if (v->dtype == ZT_FLOAT)
        for (int64_t i = 0; i < count; i++)
            ((float *)(void *)sum)[i] += ((const float *)more)[i];
    else if (v->dtype == ZT_DOUBLE)
        for (int64_t i = 0; i < count; i++)
            ((double *)(void *)sum)[i] += ((const double *)more)[i];
    else
        for (int64_t i = 0; i < count; i++)
            ((float *)(void *)sum)[i] += (float)zt_load_double(v->dtype, more, i);
}

static void hand_out_sum(const char *sum, const struct zt_view *to) {
    const int64_t count = zt_shape_count(&to->shape);
    for (int64_t i = 0; i < count; i++)
        zt_store_double(to->dtype, to->data, i,
                        to->dtype == ZT_DOUBLE ? ((const double *)(const void *)sum)[i]
                                               : (double)((const float *)(const void *)sum)[i]);
}

/* Cotangents of the final states, zeros where they have none, and empty sums. */
static void begin_back(struct running *r, const struct zt_loop_gradient *d) {
    const struct zt_loop_shape *l = &r->of->l;
    const int inputs = l->states + l->slices + l->captured;
    for (int k = 0; k < d->state_count; k++) {
        const void *given = r->call->in[inputs + k].data;
        const int i = (int)d->states[k];
        if (given)
            copy(r->now[i], given, bytes_of(zt_loop_in(l, i)));
        else
            memset(r->now[i], 0, bytes_of(zt_loop_in(l, i)));
    }
    for (int k = 0; k < d->captured_count; k++)
        memset(r->sums[k], 0, sum_bytes(zt_loop_in(l, l->states + l->slices + (int)d->captured[k])));
}

static void enter_back(struct running *r, const struct zt_loop_gradient *d, int64_t iteration) {
    const struct zt_loop_shape *l = &r->of->l;
    const int inputs = l->states + l->slices + l->captured;
    enter(r, iteration);
    for (int i = 0; i < l->states; i++)
        r->in[1 + i] = r->states[i] + (size_t)iteration * room_of(zt_loop_in(l, i));
    for (int k = 0; k < d->state_count; k++)
        r->in[1 + inputs + k] = r->now[d->states[k]];
    for (int k = 0; k < d->given_count; k++) {
        const int i = (int)d->given[k];
        r->in[1 + inputs + d->state_count + k] =
            zt_loop_slice(r->call->in[inputs + d->state_count + k].data, zt_value_bytes(zt_loop_out(l, l->states + i)),
                          l->iterations, iteration, l->reverse_out[i] != 0);
    }
}

static void leave_back(struct running *r, const struct zt_loop_gradient *d, const struct zt_loop_at *at) {
    const struct zt_loop_shape *l = &r->of->l;
    const struct zt_call *call = r->call;
    int out = d->state_count;
    for (int k = 0; k < d->slice_count; k++, out++) {
        const int i = (int)d->slices[k];
        put_slice(call->out[out].data, zt_loop_iteration_out(at, r->in, out), bytes_of(zt_loop_in(l, l->states + i)),
                  l->iterations, r->iteration, l->reverse_in[i] != 0);
    }
    for (int k = 0; k < d->captured_count; k++, out++)
        add_to_sum(r->sums[k], zt_loop_iteration_out(at, r->in, out),
                   zt_loop_in(l, l->states + l->slices + (int)d->captured[k]));
    for (int k = 0; k < d->state_count; k++)
        copy(r->next[d->states[k]], zt_loop_iteration_out(at, r->in, k), bytes_of(zt_loop_in(l, (int)d->states[k])));
    for (int k = 0; k < d->state_count; k++) {
        char *made = r->next[d->states[k]];
        r->next[d->states[k]] = r->now[d->states[k]];
        r->now[d->states[k]] = made;
    }
}

bool zt_loop_run_back(const struct zt_call *call, struct zt_err *err) {
    const struct loop *loop = call->state;
    struct running r = { .of = loop, .call = call };
    struct zt_loop_gradient d;
    zt_loop_gradient_of(call->node, &d);
    arrange(&r, loop, &d, call->workspace);
    if (!keep_states(&r, err))
        return false;
    begin_back(&r, &d);
    struct zt_loop_at *at = begin(&r, loop->backward, err);
    for (int64_t t = loop->l.iterations - 1; at && t >= 0; t--) {
        enter_back(&r, &d, t);
        if (!zt_loop_iteration_run(at, r.in, err))
            return false;
        leave_back(&r, &d, at);
    }
    for (int k = 0; at && k < d.state_count; k++)
        if (call->out[k].data)
            copy(call->out[k].data, r.now[d.states[k]], bytes_of(zt_loop_in(&loop->l, (int)d.states[k])));
    for (int k = 0; at && k < d.captured_count; k++)
        if (call->out[d.state_count + d.slice_count + k].data)
            hand_out_sum(r.sums[k], &call->out[d.state_count + d.slice_count + k]);
    return at != NULL;
}
