/* LinearAttention and its gradient on the CPU, in float (formulas in linear_attention.c). The columns of a state do not
 * depend on each other, so a state is worked on ZT_LINEAR_COLUMNS columns at a time, which stay in the first cache
 * through all steps. Forward a block of work is such a strip of one head of keys of a sample; backward it is the whole
 * head, whose strips follow each other, since dq, dk, the gradients of decay and beta are sums over all columns. */
#include "ops/linear_attention/float_rows.h"
#include "ops/linear_attention/kernels.h"
#include "ops/linear_attention/linear.h"
#include "ops/linear_attention/simd_linear.h"

#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = ZT_LINEAR_COLUMNS };

struct state {
    struct zt_launch_linear l;
    int64_t floats, strips; /* of a thread; of a state */
    bool backward;
};

/* A thread's buffers and the strip that it works on. Backward alone: from `d` on. */
struct strip {
    const struct zt_call *call;
    const struct zt_launch_linear *l;
    const struct zt_simd_linear *simd;
    int64_t b, h, first; /* sample, head of keys, first column */
    int width;           /* columns in use */
    float *s;
    float *row[3];   /* numbers of a row of the state that are converted, or exponentials */
    float *u, *rest; /* of one step, backward of all */
    float *y;        /* a number a column */
    float *d, *start, *before;
    float *dq, *dk, *dg, *dbeta; /* of all steps, added up strip by strip */
};

enum { ROW_X, ROW_K, ROW_E };

/* ---- plan ---- */

bool zt_linear_attention_cpu_supports(const struct zt_graph *g, int node) {
    struct zt_launch_linear l;
    struct zt_err err = { 0 };
    return zt_float_rows_only(g, node) && zt_linear_attention_read(g, node, &l, &err) && l.batch > 0 && l.steps > 0 &&
           l.size > 0 && l.v_size > 0;
}

bool zt_linear_attention_grad_cpu_supports(const struct zt_graph *g, int node) {
    return zt_linear_attention_cpu_supports(g, node);
}

/* base NULL: only counts the floats. */
static int64_t lay_out(struct strip *w, float *base, bool backward) {
    const struct zt_launch_linear *l = w->l;
    const int64_t state = l->size * COLS, group = l->heads / l->kv_heads, steps = backward ? l->steps : 1;
    int64_t used = 0;
    w->s = zt_float_row_take(base, &used, state);
    for (int i = 0; i < 3; i++)
        w->row[i] = zt_float_row_take(base, &used, l->size);
    w->u = zt_float_row_take(base, &used, steps * COLS);
    w->rest = zt_float_row_take(base, &used, steps * COLS);
    w->y = zt_float_row_take(base, &used, COLS);
    if (!backward)
        return used;
    w->d = zt_float_row_take(base, &used, state);
    w->start = zt_float_row_take(base, &used, (l->steps / l->chunk + 1) * state);
    w->before = zt_float_row_take(base, &used, l->chunk * state);
    w->dq = zt_float_row_take(base, &used, steps * group * l->size);
    w->dk = zt_float_row_take(base, &used, steps * l->size);
    w->dg = zt_float_row_take(base, &used, steps * l->size);
    w->dbeta = zt_float_row_take(base, &used, steps);
    return used;
}

static bool prepare(struct zt_prepare *p, bool backward, struct zt_err *err) {
    struct zt_launch_linear l;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    if (!zt_linear_attention_read(p->graph, p->node, &l, err))
        return false;
    struct strip whole = { .l = &l };
    struct state *s = zt_calloc(1, sizeof *s);
    *s = (struct state){ l, lay_out(&whole, NULL, backward), zt_ceil_div(l.v_size, COLS), backward };
    p->workspace_bytes = (size_t)s->floats * sizeof(float) * (size_t)zt_max_int(p->threads, 1);
    p->state = s;
    return true;
}

bool zt_linear_attention_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}
bool zt_linear_attention_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

void zt_linear_attention_cpu_release(void *state) {
    free(state);
}
void zt_linear_attention_grad_cpu_release(void *state) {
    free(state);
}

/* ---- rows of tensors ---- */

static const struct zt_view *input(const struct strip *w, int i) {
    return zt_float_row_in(w->call, i);
}

static void store(const struct strip *w, int out, int64_t offset, int64_t count, const float *from) {
    zt_float_row_store(zt_float_row_out(w->call, out), offset, count, from);
}

/* Returns the numbers in place if they are float, else converted in `buffer`. */
static const float *floats(const struct zt_view *from, int64_t offset, int64_t count, float *buffer) {
    if (from->dtype == ZT_FLOAT)
        return (const float *)from->data + offset;
    zt_float_row_load(from, offset, count, buffer);
    return buffer;
}

static int64_t row_of(const struct strip *w, int64_t t, int64_t size) {
    return zt_linear_attention_row(w->l, w->b, t, w->l->kv_heads, w->h, size);
}

static int64_t query_row(const struct strip *w, int64_t t, int64_t member, int64_t size) {
    return zt_linear_attention_row(w->l, w->b, t, w->l->heads, w->h * (w->l->heads / w->l->kv_heads) + member, size);
}

static const float *query(const struct strip *w, int64_t t, int64_t member) {
    return floats(input(w, ZT_LINEAR_Q), query_row(w, t, member, w->l->size), w->l->size, w->row[ROW_X]);
}

/* The strip's part of a row of v or y; zeros behind it. */
static void load_columns(const struct strip *w, const struct zt_view *from, int64_t row, float *to) {
    zt_float_row_load(from, row + w->first, w->width, to);
    for (int c = w->width; c < COLS; c++)
        to[c] = 0;
}

static float beta_of(const struct strip *w, int64_t t) {
    const struct zt_view *beta = input(w, ZT_LINEAR_BETA);
    float value = 1;
    if (beta)
        zt_float_row_load(beta, w->l->one_beta ? w->b * w->l->steps + t : row_of(w, t, 1), 1, &value);
    return value;
}

static struct zt_simd_linear_step step_of(const struct strip *w, int64_t t) {
    const struct zt_launch_linear *l = w->l;
    float *e = w->row[ROW_E], *k = w->row[ROW_K];
    const int64_t decays = l->by_key ? l->size : 1;
    if (l->gated) {
        zt_float_row_load(input(w, ZT_LINEAR_DECAY), row_of(w, t, decays), decays, e);
        w->simd->exponentials(decays, e, e);
        for (int64_t i = decays; i < l->size; i++)
            e[i] = e[0];
    }
    return (struct zt_simd_linear_step){ l->size, floats(input(w, ZT_LINEAR_K), row_of(w, t, l->size), l->size, k),
                                         l->gated ? e : NULL };
}

/* The strip's columns of the state in an input; zeros where it is absent. */
static void load_state(const struct strip *w, int in, float *s) {
    const struct zt_launch_linear *l = w->l;
    const struct zt_view *from = input(w, in);
    if (!from)
        memset(s, 0, (size_t)(l->size * COLS) * sizeof *s);
    for (int64_t i = 0; from && i < l->size; i++)
        load_columns(w, from, ((w->b * l->kv_heads + w->h) * l->size + i) * l->v_size, s + i * COLS);
}

static void store_state(const struct strip *w, int out, const float *s) {
    const struct zt_launch_linear *l = w->l;
    for (int64_t i = 0; i < l->size; i++)
        store(w, out, ((w->b * l->kv_heads + w->h) * l->size + i) * l->v_size + w->first, w->width, s + i * COLS);
}

static void begin(struct strip *w, int64_t strip) {
    w->first = strip * COLS;
    w->width = (int)zt_min_int(COLS, w->l->v_size - w->first);
}

/* ---- forward ---- */

/* Moves the state on by step t and sets u and rest of the step. */
static void advance(struct strip *w, int64_t t, float *u, float *rest) {
    const struct zt_launch_linear *l = w->l;
    const struct zt_simd_linear_step step = step_of(w, t);
    const float beta = beta_of(w, t);
    float read[COLS] = { 0 };
    load_columns(w, input(w, ZT_LINEAR_V), row_of(w, t, l->v_size), rest);
    if (l->delta)
        w->simd->read(l->size, w->s, step.k, step.e, 1, read);
    for (int c = 0; c < COLS; c++) {
        rest[c] -= read[c];
        u[c] = beta * rest[c];
    }
    w->simd->advance(&step, u, w->s, w->s);
}

static void forward_strip(struct strip *w) {
    const struct zt_launch_linear *l = w->l;
    load_state(w, ZT_LINEAR_PAST, w->s);
    for (int64_t t = 0; t < l->steps; t++) {
        advance(w, t, w->u, w->rest);
        for (int64_t j = 0; j < l->heads / l->kv_heads; j++) {
            w->simd->read(l->size, w->s, query(w, t, j), NULL, (float)l->scale, w->y);
            store(w, 0, query_row(w, t, j, l->v_size) + w->first, w->width, w->y);
        }
    }
    store_state(w, 1, w->s);
}

/* ---- backward ---- */

/* Keeps the states at the start of chunks, u and rest, and adds to dq. */
static void again(struct strip *w) {
    const struct zt_launch_linear *l = w->l;
    const int64_t state = l->size * COLS, group = l->heads / l->kv_heads;
    const struct zt_view *dy = input(w, ZT_LINEAR_DY);
    load_state(w, ZT_LINEAR_PAST, w->s);
    for (int64_t t = 0; t < l->steps; t++) {
        if (t % l->chunk == 0)
            memcpy(w->start + t / l->chunk * state, w->s, (size_t)state * sizeof *w->s);
        advance(w, t, w->u + t * COLS, w->rest + t * COLS);
        for (int64_t j = 0; dy && j < group; j++) {
            load_columns(w, dy, query_row(w, t, j, l->v_size), w->y);
            w->simd->project(l->size, w->s, w->y, (float)l->scale, w->dq + (t * group + j) * l->size);
        }
    }
}

/* The states before the steps [first, end) of a chunk. */
static void unroll(struct strip *w, int64_t first, int64_t end) {
    const struct zt_launch_linear *l = w->l;
    const int64_t state = l->size * COLS;
    memcpy(w->before, w->start + first / l->chunk * state, (size_t)state * sizeof *w->before);
    for (int64_t t = first; t + 1 < end; t++) {
        float *next = w->before + (t + 1 - first) * state;
        const struct zt_simd_linear_step step = step_of(w, t);
        w->simd->advance(&step, w->u + t * COLS, next - state, next);
    }
}

/* Step t back; s: the state before it, NULL where the rule reads none. */
static void back(struct strip *w, int64_t t, const float *s) {
    const struct zt_launch_linear *l = w->l;
    const struct zt_view *dy = input(w, ZT_LINEAR_DY);
    const float beta = beta_of(w, t), *rest = w->rest + t * COLS;
    float dv[COLS], dbeta = 0;
    for (int64_t j = 0; dy && j < l->heads / l->kv_heads; j++) {
        load_columns(w, dy, query_row(w, t, j, l->v_size), w->y);
        w->simd->add_outer(l->size, query(w, t, j), w->y, (float)l->scale, w->d);
    }
    struct zt_simd_linear_back b = { .step = step_of(w, t), .s = s, .u = w->u + t * COLS, .d = w->d };
    w->simd->read(l->size, w->d, b.step.k, NULL, 1, dv);
    for (int c = 0; c < COLS; c++) {
        dbeta += dv[c] * rest[c];
        dv[c] *= beta;
    }
    b.dv = l->delta ? dv : NULL;
    b.dk = w->dk + t * l->size;
    b.dg = l->gated ? w->dg + t * l->size : NULL;
    w->dbeta[t] += dbeta;
    w->simd->back(&b);
    store(w, ZT_LINEAR_V, row_of(w, t, l->v_size) + w->first, w->width, dv);
}

static void backward_strip(struct strip *w) {
    const struct zt_launch_linear *l = w->l;
    const bool states = l->gated || l->delta;
    again(w);
    load_state(w, ZT_LINEAR_DPRESENT, w->d);
    for (int64_t end = l->steps; end > 0;) {
        const int64_t first = (end - 1) / l->chunk * l->chunk;
        if (states)
            unroll(w, first, end);
        for (int64_t t = end - 1; t >= first; t--)
            back(w, t, states ? w->before + (t - first) * l->size * COLS : NULL);
        end = first;
    }
    store_state(w, ZT_LINEAR_PAST, w->d);
}

/* Stores the sums over all strips. */
static void store_sums(const struct strip *w) {
    const struct zt_launch_linear *l = w->l;
    const int64_t group = l->heads / l->kv_heads;
    for (int64_t t = 0; t < l->steps; t++) {
        for (int64_t j = 0; j < group; j++)
            store(w, ZT_LINEAR_Q, query_row(w, t, j, l->size), l->size, w->dq + (t * group + j) * l->size);
        store(w, ZT_LINEAR_K, row_of(w, t, l->size), l->size, w->dk + t * l->size);
        if (l->delta)
            store(w, ZT_LINEAR_BETA, row_of(w, t, 1), 1, w->dbeta + t);
        float *dg = w->dg + t * l->size, all = 0;
        for (int64_t i = 0; i < l->size; i++)
            all += dg[i];
        if (l->gated && l->by_key)
            store(w, ZT_LINEAR_DECAY, row_of(w, t, l->size), l->size, dg);
        else if (l->gated)
            store(w, ZT_LINEAR_DECAY, row_of(w, t, 1), 1, &all);
    }
}

/* ---- all ---- */

static struct strip open_head(const struct zt_call *call, int64_t head) {
    const struct state *s = call->state;
    struct strip w = { .call = call, .l = &s->l, .simd = zt_simd_linear() };
    w.b = head / s->l.kv_heads;
    w.h = head % s->l.kv_heads;
    lay_out(&w, (float *)call->workspace + zt_parallel_thread() * s->floats, s->backward);
    return w;
}

static void forward_block(void *arg, int64_t block) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    struct strip w = open_head(call, block / s->strips);
    begin(&w, block % s->strips);
    forward_strip(&w);
}

static void backward_block(void *arg, int64_t block) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    struct strip w = open_head(call, block);
    const int64_t sums = w.dbeta + s->l.steps - w.dq; /* dq, dk, dg and dbeta lie one behind the other */
    memset(w.dq, 0, (size_t)sums * sizeof *w.dq);
    for (int64_t strip = 0; strip < s->strips; strip++) {
        begin(&w, strip);
        backward_strip(&w);
    }
    store_sums(&w);
}

bool zt_linear_attention_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct state *s = call->state;
    (void)err;
    zt_parallel_for(call->threads, s->l.batch * s->l.kv_heads * s->strips, forward_block, (void *)call);
    return true;
}

bool zt_linear_attention_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct state *s = call->state;
    (void)err;
    zt_parallel_for(call->threads, s->l.batch * s->l.kv_heads, backward_block, (void *)call);
    return true;
}
