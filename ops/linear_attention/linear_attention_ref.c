/* The reference kernels of LinearAttention and its gradient, in double for every dtype (formulas in
 * linear_attention.c). A unit of work is one head of keys of one sample. The backward pass keeps the state at the start
 * of every chunk of steps and computes the states inside a chunk again. */
#include "ops/linear_attention/linear.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

/* The buffers of a thread. Vectors of a step: q, k, e and their gradients have a number a row of the state; v, u, rest
 * (v - A^T k), y, dy, du a number a column. Backward alone: start, state and the steps' u and rest, then the sums. */
struct head {
    const struct zt_call *call;
    const struct zt_launch_linear *l;
    int64_t b, h;
    double *s, *d;          /* the state and its gradient */
    double *start, *before; /* [chunks] and [chunk] states */
    double *us, *rests;     /* [steps][columns] */
    double *q, *k, *e, *dq, *dk, *dg;
    double *v, *y, *du;
};

static double *take(double **at, int64_t count) {
    double *taken = *at;
    *at = taken ? taken + count : NULL;
    return taken;
}

static int64_t vectors_of(const struct zt_launch_linear *l) {
    return 6 * l->size + 3 * l->v_size + 1; /* at least one, so that no buffer is NULL */
}

static void lay_out(struct head *w, double *base, bool backward) {
    const struct zt_launch_linear *l = w->l;
    const int64_t state = l->size * l->v_size, steps = backward ? l->steps : 1;
    const int64_t chunks = backward ? l->steps / l->chunk + 1 : 0;
    double *at = base;
    w->s = take(&at, state);
    w->us = take(&at, steps * l->v_size);
    w->rests = take(&at, steps * l->v_size);
    w->d = take(&at, backward ? state : 0);
    w->start = take(&at, chunks * state);
    w->before = take(&at, backward ? l->chunk * state : 0);
    w->q = take(&at, l->size), w->k = take(&at, l->size), w->e = take(&at, l->size);
    w->dq = take(&at, l->size), w->dk = take(&at, l->size), w->dg = take(&at, l->size);
    w->v = take(&at, l->v_size), w->y = take(&at, l->v_size), w->du = take(&at, l->v_size);
}

static int64_t doubles_of(const struct zt_launch_linear *l, bool backward) {
    const int64_t kept = backward ? zt_linear_attention_kept(l, l->v_size) : l->size * l->v_size + 2 * l->v_size;
    return kept + vectors_of(l);
}

static bool prepare(struct zt_prepare *p, bool backward, struct zt_err *err) {
    struct zt_launch_linear l;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    if (!zt_linear_attention_read(p->graph, p->node, &l, err))
        return false;
    if (l.batch > 0)
        p->workspace_bytes = (size_t)doubles_of(&l, backward) * sizeof(double) * (size_t)zt_max_int(p->threads, 1);
    return true;
}

bool zt_linear_attention_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}

bool zt_linear_attention_grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

/* ---- rows of tensors ---- */

static const struct zt_view *input(const struct head *w, int i) {
    return i < w->call->in_count && w->call->in[i].data ? &w->call->in[i] : NULL;
}

/* `count` numbers of a tensor from `offset` on; zeros of an absent one. */
static void load(const struct zt_view *from, int64_t offset, int64_t count, double *to) {
    if (from)
        zt_load_block(from->dtype, from->data, offset, 1, count, to);
    else
        memset(to, 0, (size_t)count * sizeof *to);
}

/* Nothing where the output is omitted, or belongs to an omitted input and so has no elements. */
static void store(const struct head *w, int out, int64_t offset, int64_t count, const double *from) {
    const struct zt_view *to = out < w->call->out_count ? &w->call->out[out] : NULL;
    if (to && to->data && zt_shape_count(&to->shape) > 0)
        zt_store_block(to->dtype, to->data, offset, 1, count, from);
}

static int64_t row_of(const struct head *w, int64_t t, int64_t size) {
    return zt_linear_attention_row(w->l, w->b, t, w->l->kv_heads, w->h, size);
}

static int64_t query_row(const struct head *w, int64_t t, int64_t member, int64_t size) {
    const int64_t group = w->l->heads / w->l->kv_heads;
    return zt_linear_attention_row(w->l, w->b, t, w->l->heads, w->h * group + member, size);
}

static double beta_of(const struct head *w, int64_t t) {
    const struct zt_view *beta = input(w, ZT_LINEAR_BETA);
    const int64_t at = w->l->one_beta ? w->b * w->l->steps + t : row_of(w, t, 1);
    return beta ? zt_load_double(beta->dtype, beta->data, at) : 1;
}

/* k and e of step t. */
static void load_step(struct head *w, int64_t t) {
    const struct zt_launch_linear *l = w->l;
    const int64_t decays = l->by_key ? l->size : 1;
    load(input(w, ZT_LINEAR_K), row_of(w, t, l->size), l->size, w->k);
    if (l->gated && l->size > 0)
        load(input(w, ZT_LINEAR_DECAY), row_of(w, t, decays), decays, w->e);
    for (int64_t i = 0; i < l->size; i++)
        w->e[i] = !l->gated ? 1 : i < decays ? exp(w->e[i]) : w->e[0];
}

/* ---- products with a state [size, columns] ---- */

/* y = factor x^T S */
static void read_state(const struct head *w, const double *s, const double *x, double factor, double *y) {
    const int64_t columns = w->l->v_size;
    memset(y, 0, (size_t)columns * sizeof *y);
    for (int64_t i = 0; i < w->l->size; i++)
        for (int64_t m = 0; m < columns; m++)
            y[m] += factor * x[i] * s[i * columns + m];
}

/* S += factor x y^T */
static void add_outer(const struct head *w, const double *x, const double *y, double factor, double *s) {
    const int64_t columns = w->l->v_size;
    for (int64_t i = 0; i < w->l->size; i++)
        for (int64_t m = 0; m < columns; m++)
            s[i * columns + m] += factor * x[i] * y[m];
}

/* x += factor S y */
static void project(const struct head *w, const double *s, const double *y, double factor, double *x) {
    const int64_t columns = w->l->v_size;
    for (int64_t i = 0; i < w->l->size; i++)
        for (int64_t m = 0; m < columns; m++)
            x[i] += factor * s[i * columns + m] * y[m];
}

static void decay(const struct head *w, double *s) {
    const int64_t columns = w->l->v_size;
    for (int64_t i = 0; w->l->gated && i < w->l->size; i++)
        for (int64_t m = 0; m < columns; m++)
            s[i * columns + m] *= w->e[i];
}

/* ---- forward ---- */

/* Moves w->s on by step t and sets u and rest of the step. */
static void advance(struct head *w, int64_t t, double *u, double *rest) {
    const struct zt_launch_linear *l = w->l;
    load_step(w, t);
    load(input(w, ZT_LINEAR_V), row_of(w, t, l->v_size), l->v_size, w->v);
    decay(w, w->s);
    if (l->delta)
        read_state(w, w->s, w->k, 1, rest);
    const double beta = beta_of(w, t);
    for (int64_t m = 0; m < l->v_size; m++) {
        rest[m] = l->delta ? w->v[m] - rest[m] : w->v[m];
        u[m] = beta * rest[m];
    }
    add_outer(w, w->k, u, 1, w->s);
}

static void forward(struct head *w) {
    const struct zt_launch_linear *l = w->l;
    const int64_t state = l->size * l->v_size, at = (w->b * l->kv_heads + w->h) * state;
    load(input(w, ZT_LINEAR_PAST), at, state, w->s);
    for (int64_t t = 0; t < l->steps; t++) {
        advance(w, t, w->us, w->rests);
        for (int64_t j = 0; j < l->heads / l->kv_heads; j++) {
            load(input(w, ZT_LINEAR_Q), query_row(w, t, j, l->size), l->size, w->q);
            read_state(w, w->s, w->q, l->scale, w->y);
            store(w, 0, query_row(w, t, j, l->v_size), l->v_size, w->y);
        }
    }
    store(w, 1, at, state, w->s);
}

/* ---- backward ---- */

/* Keeps what the backward pass needs, and dq. */
static void again(struct head *w) {
    const struct zt_launch_linear *l = w->l;
    const int64_t state = l->size * l->v_size;
    for (int64_t t = 0; t < l->steps; t++) {
        if (t % l->chunk == 0)
            memcpy(w->start + t / l->chunk * state, w->s, (size_t)state * sizeof *w->s);
        advance(w, t, w->us + t * l->v_size, w->rests + t * l->v_size);
        for (int64_t j = 0; j < l->heads / l->kv_heads; j++) {
            load(input(w, ZT_LINEAR_DY), query_row(w, t, j, l->v_size), l->v_size, w->y);
            memset(w->dq, 0, (size_t)l->size * sizeof *w->dq);
            project(w, w->s, w->y, l->scale, w->dq);
            store(w, ZT_LINEAR_Q, query_row(w, t, j, l->size), l->size, w->dq);
        }
    }
}

/* The states before the steps [first, end) of a chunk. */
static void unroll(struct head *w, int64_t first, int64_t end) {
    const struct zt_launch_linear *l = w->l;
    const int64_t state = l->size * l->v_size;
    memcpy(w->s, w->start + first / l->chunk * state, (size_t)state * sizeof *w->s);
    for (int64_t t = first; t < end; t++) {
        memcpy(w->before + (t - first) * state, w->s, (size_t)state * sizeof *w->s);
        load_step(w, t);
        decay(w, w->s);
        add_outer(w, w->k, w->us + t * l->v_size, 1, w->s);
    }
}

static void give_decay(struct head *w, int64_t t, const double *a) {
    const struct zt_launch_linear *l = w->l;
    double all = 0;
    for (int64_t i = 0; i < l->size; i++) {
        w->dg[i] = 0;
        for (int64_t m = 0; m < l->v_size; m++)
            w->dg[i] += w->d[i * l->v_size + m] * a[i * l->v_size + m];
        all += w->dg[i];
    }
    if (l->by_key)
        store(w, ZT_LINEAR_DECAY, row_of(w, t, l->size), l->size, w->dg);
    else
        store(w, ZT_LINEAR_DECAY, row_of(w, t, 1), 1, &all);
}

/* Step t back; a: the state before the step on entry. */
static void back(struct head *w, int64_t t, double *a) {
    const struct zt_launch_linear *l = w->l;
    const double beta = beta_of(w, t), *rest = w->rests + t * l->v_size;
    double dbeta = 0;
    load_step(w, t);
    decay(w, a);
    for (int64_t j = 0; j < l->heads / l->kv_heads; j++) {
        load(input(w, ZT_LINEAR_Q), query_row(w, t, j, l->size), l->size, w->q);
        load(input(w, ZT_LINEAR_DY), query_row(w, t, j, l->v_size), l->v_size, w->y);
        add_outer(w, w->q, w->y, l->scale, w->d);
    }
    read_state(w, w->d, w->k, 1, w->du);
    memset(w->dk, 0, (size_t)l->size * sizeof *w->dk);
    project(w, w->d, w->us + t * l->v_size, 1, w->dk);
    for (int64_t m = 0; m < l->v_size; m++) {
        dbeta += w->du[m] * rest[m];
        w->du[m] *= beta;
    }
    if (l->delta) {
        project(w, a, w->du, -1, w->dk);
        add_outer(w, w->k, w->du, -1, w->d);
        store(w, ZT_LINEAR_BETA, row_of(w, t, 1), 1, &dbeta);
    }
    store(w, ZT_LINEAR_K, row_of(w, t, l->size), l->size, w->dk);
    store(w, ZT_LINEAR_V, row_of(w, t, l->v_size), l->v_size, w->du);
    if (l->gated)
        give_decay(w, t, a);
    decay(w, w->d);
}

static void backward(struct head *w) {
    const struct zt_launch_linear *l = w->l;
    const int64_t state = l->size * l->v_size, at = (w->b * l->kv_heads + w->h) * state;
    load(input(w, ZT_LINEAR_PAST), at, state, w->s);
    again(w);
    load(input(w, ZT_LINEAR_DPRESENT), at, state, w->d);
    for (int64_t end = l->steps; end > 0;) {
        const int64_t first = (end - 1) / l->chunk * l->chunk;
        unroll(w, first, end);
        for (int64_t t = end - 1; t >= first; t--)
            back(w, t, w->before + (t - first) * state);
        end = first;
    }
    store(w, ZT_LINEAR_PAST, at, state, w->d);
}

/* ---- all heads ---- */

struct work {
    const struct zt_call *call;
    struct zt_launch_linear l;
    bool backward;
};

static void run_head(void *arg, int64_t i) {
    const struct work *all = arg;
    struct head w = { .call = all->call, .l = &all->l, .b = i / all->l.kv_heads, .h = i % all->l.kv_heads };
    double *base = all->call->workspace;
    lay_out(&w, base + zt_parallel_thread() * doubles_of(&all->l, all->backward), all->backward);
    (all->backward ? backward : forward)(&w);
}

static bool run(const struct zt_call *call, bool backward, struct zt_err *err) {
    struct work w = { .call = call, .backward = backward };
    if (!zt_linear_attention_read(call->graph, zt_call_node(call), &w.l, err))
        return false;
    const int64_t heads = w.l.batch * w.l.kv_heads;
    const double work = 8.0 * (double)(heads * w.l.steps) * (double)(w.l.size * w.l.v_size);
    zt_parallel_for(zt_threads_worth(call->threads, work), heads, run_head, &w);
    return true;
}

bool zt_linear_attention_run(const struct zt_call *call, struct zt_err *err) {
    return run(call, false, err);
}

bool zt_linear_attention_grad_run(const struct zt_call *call, struct zt_err *err) {
    return run(call, true, err);
}
