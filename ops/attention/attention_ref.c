/* The reference kernels of Attention and its gradient, in double for every dtype (formulas in attention.c). A unit of
 * work is one head of keys with the queries that share it. Its rows are stored as rows and as columns, so that every
 * inner loop adds a multiple of one contiguous row to another. */
#include "ops/attention/attention.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

/* Buffers of one thread; NULL where a pass does not use one. */
struct scratch {
    double *k, *k_columns, *v, *v_columns; /* [keys, size], [size, keys] */
    double *dk, *dv;
    double *q, *dq, *y, *dy;      /* one row */
    double *score, *bias, *p, *g; /* a number a key */
};

static double *take(double **at, int64_t count) {
    double *taken = *at;
    *at += count;
    return taken;
}

/* Lays the scratch out from `base`; returns the doubles it takes. base NULL: only counts. */
static int64_t lay_out(const struct zt_attention *a, bool grad, double *base, struct scratch *s) {
    int64_t k = a->keys * a->size, v = a->keys * a->v_size;
    int64_t total = (grad ? 3 : 1) * (k + v) + 2 * (a->size + a->v_size) + 4 * a->keys;
    double *at = base;
    if (!base)
        return total;
    s->k_columns = take(&at, k);
    s->v = take(&at, v);
    s->k = grad ? take(&at, k) : NULL;
    s->v_columns = grad ? take(&at, v) : NULL;
    s->dk = grad ? take(&at, k) : NULL;
    s->dv = grad ? take(&at, v) : NULL;
    s->q = take(&at, a->size);
    s->dq = take(&at, a->size);
    s->y = take(&at, a->v_size);
    s->dy = take(&at, a->v_size);
    s->score = take(&at, a->keys);
    s->bias = take(&at, a->keys);
    s->p = take(&at, a->keys);
    s->g = take(&at, a->keys);
    return total;
}

/* None without queries and keys: nothing is stored then, and the other sizes, beside zeros, may be huge. */
static int64_t heads_of(const struct zt_attention *a) {
    return a->queries + a->keys > 0 ? a->batch * a->kv_heads : 0;
}

static bool prepare(struct zt_prepare *p, bool grad, struct zt_err *err) {
    struct zt_attention a;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL; /* plain */
    if (!zt_attention_read(p->graph, p->node, &a, err))
        return false;
    if (heads_of(&a) > 0)
        p->workspace_bytes = (size_t)lay_out(&a, grad, NULL, NULL) * sizeof(double) * (size_t)zt_max_int(p->threads, 1);
    return true;
}

bool zt_attention_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, false, err);
}

bool zt_attention_grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, true, err);
}

/* y += a x */
static void add_multiple(int64_t count, double a, const double *restrict x, double *restrict y) {
    for (int64_t i = 0; i < count; i++)
        y[i] += a * x[i];
}

static void load(const struct zt_view *x, int64_t offset, int64_t count, double *to) {
    zt_load_block(x->dtype, x->data, offset, 1, count, to);
}

/* One unit of work. */
struct job {
    const struct zt_call *call;
    struct zt_attention a;
    struct scratch s;
    int64_t batch, kv_head;
};

/* ztrain.AttentionTrain, whose second output is not the present rows */
static bool is_training(const struct zt_call *call) {
    return zt_attention_is_train(call->node->op);
}

/* An output of Attention, NULL where it is not asked for. */
static const struct zt_view *result(const struct zt_call *call, int i) {
    return !is_training(call) && i < call->out_count && call->out[i].data ? &call->out[i] : NULL;
}

static int64_t place(const struct zt_heads *h, int64_t batch, int64_t head, int64_t row) {
    return h->first + batch * h->batch + head * h->head + row * h->row;
}

/* Keys or values: the past rows, then the given ones. */
struct cache {
    const struct zt_heads *given, *past;
    int past_in, past_out; /* input and gradient output of the past rows */
    int64_t size;          /* columns */
};

static struct cache keys_of(const struct zt_attention *a) {
    return (struct cache){ &a->k, &a->past_k, ZT_PAST_K, ZT_DPAST_K, a->size };
}

static struct cache values_of(const struct zt_attention *a) {
    return (struct cache){ &a->v, &a->past_v, ZT_PAST_V, ZT_DPAST_V, a->v_size };
}

/* First element of row i of the job's head, in the tensor that has it. */
static int64_t cache_place(const struct job *j, const struct cache *c, int64_t i) {
    const bool past = i < j->a.past;
    return place(past ? c->past : c->given, j->batch, j->kv_head, past ? i : i - j->a.past);
}

/* Loads the rows of one head, as rows and as columns (each may be NULL). `row` holds one row where `rows` is NULL. */
static void load_rows(const struct job *j, const struct cache *c, double *row, double *rows, double *columns) {
    for (int64_t i = 0; i < j->a.keys; i++) {
        double *to = rows ? rows + i * c->size : row;
        load(&j->call->in[i < j->a.past ? c->past_in : c->given->tensor], cache_place(j, c, i), c->size, to);
        for (int64_t k = 0; columns && k < c->size; k++)
            columns[k * j->a.keys + i] = to[k];
    }
}

/* ---- one row of queries ---- */

void zt_attention_visible(const struct zt_call *call, const struct zt_attention *a, int64_t batch, int64_t i,
                          int64_t *from, int64_t *to) {
    const struct zt_view *nonpad = call->in_count > ZT_NONPAD ? &call->in[ZT_NONPAD] : NULL;
    int64_t end = a->keys, offset = a->past;
    if (nonpad && nonpad->data) {
        end = zt_max_int(0, zt_min_int(end, zt_load_int(nonpad->dtype, nonpad->data, batch)));
        offset = zt_max_int(zt_load_int(nonpad->dtype, nonpad->data, batch), INT64_MIN / 4) - a->queries;
        offset = zt_min_int(offset, a->keys); /* beyond, every key is seen */
    }
    *from = a->left >= 0 ? zt_max_int(0, i + offset - zt_min_int(a->left, a->keys + a->queries)) : 0;
    *to = zt_min_int(end, a->mask_length);
    if (a->causal)
        *to = zt_min_int(*to, i + offset + 1);
    if (a->right >= 0)
        *to = zt_min_int(*to, i + offset + zt_min_int(a->right, a->keys) + 1);
    *to = zt_max_int(*to, 0);
    *from = zt_min_int(*from, *to);
}

static void load_bias(const struct job *j, int64_t head, int64_t i, int64_t from, int64_t to) {
    const struct zt_attention *a = &j->a;
    const struct zt_view *mask = j->call->in_count > ZT_MASK ? &j->call->in[ZT_MASK] : NULL;
    double *bias = j->s.bias;
    for (int64_t n = 0; n < a->keys; n++)
        bias[n] = n >= from && n < to ? 0 : -INFINITY;
    if (!mask || !mask->data || from == to)
        return;
    int64_t offset = j->batch * a->mask_step[0] + head * a->mask_step[1] + i * a->mask_step[2];
    zt_load_block(mask->dtype, mask->data, offset + from * a->mask_step[3], a->mask_step[3], to - from, bias + from);
    for (int64_t n = from; mask->dtype == ZT_BOOL && n < to; n++)
        bias[n] = bias[n] != 0 ? 0 : -INFINITY;
}

/* p = softmax(score + bias) over keys from..to; 0 elsewhere, and everywhere where all of them are masked. statistics:
 * the maximum and 1 / sum, 0 and 0 where all are masked. */
static void softmax(const struct job *j, int64_t from, int64_t to, double statistics[2]) {
    const double *x = j->s.score, *bias = j->s.bias;
    double max = -INFINITY, sum = 0, *p = j->s.p;
    bool seen = false;
    memset(p, 0, sizeof *p * (size_t)j->a.keys);
    for (int64_t n = from; n < to; n++) {
        seen |= bias[n] != -INFINITY;
        max = x[n] + bias[n] > max || isnan(x[n] + bias[n]) ? x[n] + bias[n] : max;
    }
    for (int64_t n = from; seen && n < to; n++) {
        p[n] = max == -INFINITY ? 0 : exp(x[n] + bias[n] - max);
        sum += p[n];
    }
    for (int64_t n = from; seen && sum != 0 && n < to; n++)
        p[n] /= sum;
    statistics[0] = sum != 0 ? max : 0;
    statistics[1] = sum != 0 ? 1 / sum : 0;
}

/* Scores of one row into s.score (capped), weights into s.p; the output QK where it is there. `all`: also the scores of
 * keys it cannot see. */
static void score_row(const struct job *j, int64_t head, int64_t i, bool all, int64_t *from, int64_t *to) {
    const struct zt_attention *a = &j->a;
    const struct scratch *s = &j->s;
    zt_attention_visible(j->call, a, j->batch, i, from, to);
    int64_t first = all ? 0 : *from, count = all ? a->keys : *to - *from;
    load(&j->call->in[ZT_Q], place(&a->q, j->batch, head, i), a->size, s->q);
    memset(s->score, 0, sizeof *s->score * (size_t)a->keys);
    for (int64_t c = 0; c < a->size; c++)
        add_multiple(count, a->scale * s->q[c], s->k_columns + c * a->keys + first, s->score + first);
}

static void cap_row(const struct job *j) {
    double *score = j->s.score, cap = j->a.softcap;
    for (int64_t n = 0; cap > 0 && n < j->a.keys; n++)
        score[n] = cap * tanh(score[n] / cap);
}

static int64_t qk_place(const struct zt_attention *a, const struct job *j, int64_t head, int64_t i) {
    return ((j->batch * a->heads + head) * a->queries + i) * a->keys;
}

/* Stores a row of the output QK at the stage of the computation that it shows. */
static void show(const struct job *j, enum zt_qk stage, int64_t head, int64_t i) {
    const struct zt_view *qk = result(j->call, ZT_QK);
    const struct scratch *s = &j->s;
    if (!qk || stage != j->a.qk)
        return;
    for (int64_t n = 0; stage == ZT_QK_BIASED && n < j->a.keys; n++)
        s->g[n] = s->score[n] + s->bias[n];
    const double *row = stage == ZT_QK_SOFTMAX ? s->p : stage == ZT_QK_BIASED ? s->g : s->score;
    zt_store_block(qk->dtype, qk->data, qk_place(&j->a, j, head, i), 1, j->a.keys, row);
}

static void forward_row(const struct job *j, int64_t head, int64_t i) {
    const struct zt_attention *a = &j->a;
    const struct scratch *s = &j->s;
    const struct zt_view *y = &j->call->out[ZT_Y];
    int64_t from, to;
    double statistics[2];
    score_row(j, head, i, result(j->call, ZT_QK) != NULL, &from, &to);
    load_bias(j, head, i, from, to);
    show(j, ZT_QK_RAW, head, i);
    cap_row(j);
    show(j, ZT_QK_CAPPED, head, i);
    show(j, ZT_QK_BIASED, head, i);
    softmax(j, from, to, statistics);
    if (is_training(j->call))
        for (int k = 0; k < 2; k++)
            zt_store_double(j->call->out[1].dtype, j->call->out[1].data,
                            ((j->batch * a->heads + head) * 2 + k) * a->queries + i, statistics[k]);
    show(j, ZT_QK_SOFTMAX, head, i);
    memset(s->y, 0, sizeof *s->y * (size_t)a->v_size);
    for (int64_t n = from; n < to; n++)
        add_multiple(a->v_size, s->p[n], s->v + n * a->v_size, s->y);
    zt_store_block(y->dtype, y->data, place(&a->y, j->batch, head, i), 1, a->v_size, s->y);
}

/* ---- backwards ---- */

/* Cotangent of output `out`, NULL where there is none. */
static const struct zt_view *cotangent(const struct job *j, int out) {
    int in = ZT_ATTENTION_INS + out;
    return in < j->call->in_count && j->call->in[in].data ? &j->call->in[in] : NULL;
}

/* to[n] += cotangent of the output QK, where that shows `stage` */
static void add_shown(const struct job *j, enum zt_qk stage, int64_t head, int64_t i, double *to) {
    const struct zt_view *g = cotangent(j, ZT_QK);
    double block[ZT_ELEMENT_BLOCK];
    if (!g || stage != j->a.qk)
        return;
    for (int64_t at = 0; at < j->a.keys; at += ZT_ELEMENT_BLOCK) {
        int64_t count = zt_min_int(ZT_ELEMENT_BLOCK, j->a.keys - at);
        load(g, qk_place(&j->a, j, head, i) + at, count, block);
        add_multiple(count, 1, block, to + at);
    }
}

/* Computes ds of one row into s.g and stores the row of dbias. */
static void score_grad(const struct job *j, int64_t head, int64_t i, int64_t from, int64_t to) {
    const struct zt_attention *a = &j->a;
    const struct scratch *s = &j->s;
    const struct zt_view *dy = cotangent(j, ZT_Y);
    const struct zt_view *dmask = j->call->out_count > ZT_DMASK ? &j->call->out[ZT_DMASK] : NULL;
    double sum = 0, *g = s->g;
    memset(g, 0, sizeof *g * (size_t)a->keys);
    memset(s->dy, 0, sizeof *s->dy * (size_t)a->v_size);
    if (dy)
        load(dy, place(&a->y, j->batch, head, i), a->v_size, s->dy);
    for (int64_t c = 0; dy && c < a->v_size; c++)
        add_multiple(to - from, s->dy[c], s->v_columns + c * a->keys + from, g + from);
    add_shown(j, ZT_QK_SOFTMAX, head, i, g);
    for (int64_t n = from; n < to; n++)
        sum += s->p[n] * g[n];
    for (int64_t n = 0; n < a->keys; n++)
        g[n] = n >= from && n < to ? s->p[n] * (g[n] - sum) : 0;
    add_shown(j, ZT_QK_BIASED, head, i, g);
    if (dmask && dmask->data)
        zt_store_block(dmask->dtype, dmask->data, ((j->batch * a->heads + head) * a->queries + i) * a->mask_length, 1,
                       a->mask_length, g);
    add_shown(j, ZT_QK_CAPPED, head, i, g);
    for (int64_t n = 0; a->softcap > 0 && n < a->keys; n++)
        g[n] *= 1 - s->score[n] / a->softcap * (s->score[n] / a->softcap);
    add_shown(j, ZT_QK_RAW, head, i, g);
}

static void grad_row(const struct job *j, int64_t head, int64_t i) {
    const struct zt_attention *a = &j->a;
    const struct scratch *s = &j->s;
    const struct zt_view *dq = &j->call->out[ZT_DQ];
    bool all = cotangent(j, ZT_QK) != NULL;
    int64_t from, to;
    double statistics[2];
    score_row(j, head, i, all, &from, &to);
    load_bias(j, head, i, from, to);
    cap_row(j);
    softmax(j, from, to, statistics);
    score_grad(j, head, i, from, to);
    memset(s->dq, 0, sizeof *s->dq * (size_t)a->size);
    for (int64_t n = from; n < to; n++)
        add_multiple(a->v_size, s->p[n], s->dy, s->dv + n * a->v_size);
    for (int64_t n = all ? 0 : from; n < (all ? a->keys : to); n++) {
        add_multiple(a->size, a->scale * s->g[n], s->k + n * a->size, s->dq);
        add_multiple(a->size, a->scale * s->g[n], s->q, s->dk + n * a->size);
    }
    zt_store_block(dq->dtype, dq->data, place(&a->q, j->batch, head, i), 1, a->size, s->dq);
}

/* Stores rows of dk or dv to the gradients of past and given rows, each where it is wanted. */
static void store_rows(const struct job *j, const struct cache *c, const double *rows) {
    for (int64_t i = 0; i < j->a.keys; i++) {
        const int out = i < j->a.past ? c->past_out : c->given->tensor;
        if (out >= j->call->out_count || !j->call->out[out].data)
            continue;
        const struct zt_view *d = &j->call->out[out];
        zt_store_block(d->dtype, d->data, cache_place(j, c, i), 1, c->size, rows + i * c->size);
    }
}

/* The cotangent of the present rows is where the sums begin. */
static void start_rows(const struct job *j, int out, int64_t size, double *rows) {
    const struct zt_view *d = cotangent(j, out);
    int64_t count = j->a.keys * size;
    memset(rows, 0, sizeof *rows * (size_t)count);
    if (d)
        load(d, (j->batch * j->a.kv_heads + j->kv_head) * count, count, rows);
}

/* ---- key heads ---- */

static void store_present(const struct job *j, int out, int64_t size, const double *columns, const double *rows) {
    const struct zt_view *to = result(j->call, out);
    int64_t start = (j->batch * j->a.kv_heads + j->kv_head) * j->a.keys * size;
    if (!to)
        return;
    for (int64_t c = 0; columns && c < size; c++)
        zt_store_block(to->dtype, to->data, start + c, size, j->a.keys, columns + c * j->a.keys);
    if (rows)
        zt_store_block(to->dtype, to->data, start, 1, j->a.keys * size, rows);
}

static void forward_head(struct job *j) {
    const struct zt_attention *a = &j->a;
    const struct cache k = keys_of(a), v = values_of(a);
    int64_t group = a->heads / a->kv_heads;
    load_rows(j, &k, j->s.q, NULL, j->s.k_columns);
    load_rows(j, &v, NULL, j->s.v, NULL);
    store_present(j, ZT_PRESENT_K, a->size, j->s.k_columns, NULL);
    store_present(j, ZT_PRESENT_V, a->v_size, NULL, j->s.v);
    for (int64_t n = 0; n < group * a->queries; n++)
        forward_row(j, j->kv_head * group + n / a->queries, n % a->queries);
}

static void grad_head(struct job *j) {
    const struct zt_attention *a = &j->a;
    const struct cache k = keys_of(a), v = values_of(a);
    int64_t group = a->heads / a->kv_heads;
    load_rows(j, &k, NULL, j->s.k, j->s.k_columns);
    load_rows(j, &v, j->s.y, NULL, j->s.v_columns);
    start_rows(j, ZT_PRESENT_K, a->size, j->s.dk);
    start_rows(j, ZT_PRESENT_V, a->v_size, j->s.dv);
    for (int64_t n = 0; n < group * a->queries; n++)
        grad_row(j, j->kv_head * group + n / a->queries, n % a->queries);
    store_rows(j, &k, j->s.dk);
    store_rows(j, &v, j->s.dv);
}

struct heads {
    const struct zt_call *call;
    struct zt_attention a;
    bool grad;
    int64_t scratch; /* doubles of a thread */
};

static void run_head(void *arg, int64_t n) {
    const struct heads *h = arg;
    struct job j = { .call = h->call, .a = h->a, .batch = n / h->a.kv_heads, .kv_head = n % h->a.kv_heads };
    lay_out(&h->a, h->grad, (double *)h->call->workspace + zt_parallel_thread() * h->scratch, &j.s);
    (h->grad ? grad_head : forward_head)(&j);
}

static bool run(const struct zt_call *call, bool grad, struct zt_err *err) {
    struct heads h = { .call = call, .grad = grad };
    const struct zt_attention *a = &h.a;
    if (!zt_attention_read(call->graph, zt_call_node(call), &h.a, err))
        return false;
    h.scratch = lay_out(a, grad, NULL, NULL);
    double work = (double)(a->batch * a->heads) * (double)a->queries * (double)a->keys * (double)(a->size + a->v_size);
    zt_parallel_for(zt_threads_worth(call->threads, work), heads_of(a), run_head, &h);
    return true;
}

bool zt_attention_run(const struct zt_call *call, struct zt_err *err) {
    return run(call, false, err);
}

bool zt_attention_grad_run(const struct zt_call *call, struct zt_err *err) {
    return run(call, true, err);
}
