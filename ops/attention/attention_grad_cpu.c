#include "ops/attention/attention_cpu.h"

#include "ops/attention/kernels.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

/* One panel of the block of queries. */
struct side {
    struct zt_panel panel;
    float *q, *dy, *dq;         /* [size][query] */
    float *weight, *score_grad; /* p and ds, [ZT_KEYS][query] */
    float max[ZT_MOST_COLS], inverse[ZT_MOST_COLS], delta[ZT_MOST_COLS];
    int64_t keys; /* rows of the block of keys that the panel sees, 0: none */
    bool any;     /* dq holds something */
};

struct backward {
    struct zt_attention_job job;
    float *k, *v, *k_columns; /* packed rows of k, v and k^T */
    struct side side[ZT_PANELS];
    int sides;
    float *q, *dy; /* rows of the block of queries as right sides: [panel of columns][row][column] */
    float *left;   /* packed rows of p^T or ds^T: [tile of keys][row of the block][key] */
    float *y, *slope;
};

static int64_t lay_out(const struct zt_attention_plan *plan, float *base, struct backward *b) {
    const struct zt_attention *a = &plan->a;
    const int64_t rows = (int64_t)ZT_PANELS * plan->cols, tile = (int64_t)ZT_KEYS * plan->cols;
    int64_t used = 0;
    b->k = zt_attention_take(base, &used, zt_attention_packed(a->keys, a->size, plan->rows));
    b->v = zt_attention_take(base, &used, zt_attention_packed(a->keys, a->v_size, plan->rows));
    b->k_columns = zt_attention_take(base, &used, zt_attention_packed(a->size, a->keys, plan->rows));
    for (int i = 0; i < ZT_PANELS; i++) {
        struct side *s = &b->side[i];
        s->q = zt_attention_take(base, &used, a->size * plan->cols);
        s->dq = zt_attention_take(base, &used, a->size * plan->cols);
        s->dy = zt_attention_take(base, &used, a->v_size * plan->cols);
        s->weight = zt_attention_take(base, &used, tile);
        s->score_grad = zt_attention_take(base, &used, tile);
    }
    b->q = zt_attention_take(base, &used, zt_attention_packed(a->size, rows, plan->cols));
    b->dy = zt_attention_take(base, &used, zt_attention_packed(a->v_size, rows, plan->cols));
    b->left = zt_attention_take(base, &used, ZT_KEYS * rows);
    b->y = zt_attention_take(base, &used, a->v_size * plan->cols);
    b->slope = zt_attention_take(base, &used, tile);
    b->job.bias = zt_attention_take(base, &used, tile);
    b->job.rows = zt_attention_take(base, &used, tile);
    b->job.stored = zt_attention_take(base, &used, (int64_t)plan->cols * plan->cols);
    return used;
}

bool zt_attention_grad_cpu_supports(const struct zt_graph *g, int node) {
    for (int i = ZT_PRESENT_K; i <= ZT_QK; i++)
        if (zt_in(g, node, ZT_ATTENTION_INS + i))
            return false;
    const struct zt_value *dy = zt_in(g, node, ZT_ATTENTION_INS + ZT_Y),
                          *statistics = zt_in(g, node, ZT_SAVED_STATISTICS);
    return dy && dy->dtype == ZT_FLOAT && statistics && statistics->dtype == ZT_FLOAT &&
           zt_attention_cpu_takes(g, node);
}

bool zt_attention_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_attention_plan plan;
    struct backward b;
    if (!zt_attention_cpu_plan(p, &plan, err))
        return false;
    plan.elems = lay_out(&plan, NULL, &b);
    p->workspace_bytes = (size_t)plan.elems * sizeof(float) * (size_t)zt_max_int(p->threads, 1);
    struct zt_attention_plan *state = zt_calloc(1, sizeof *state);
    *state = plan;
    p->state = state;
    return true;
}

void zt_attention_grad_cpu_release(void *state) {
    free(state);
}

static const float *input(const struct backward *b, int in, const struct zt_heads *step, int64_t head) {
    return (const float *)b->job.call->in[in].data + zt_attention_place(step, b->job.batch, head, 0);
}

/* A gradient, NULL where it is not asked for. */
static float *output(const struct backward *b, int out, const struct zt_heads *step, int64_t head) {
    const struct zt_call *call = b->job.call;
    if (out >= call->out_count || !call->out[out].data)
        return NULL;
    return (float *)call->out[out].data + zt_attention_place(step, b->job.batch, head, 0);
}

static struct zt_heads mask_gradient(const struct zt_attention *a) {
    const int64_t row = a->mask_length, head = a->queries * row;
    return (struct zt_heads){ .batch = a->heads * head, .head = head, .row = row };
}

/* ---- a block of queries ---- */

static void begin_side(struct backward *b, struct side *s, int64_t first) {
    const struct zt_attention_plan *plan = b->job.plan;
    const struct zt_attention *a = &plan->a;
    const struct zt_attention_job *j = &b->job;
    s->panel = zt_attention_panel(j, first);
    s->any = false;
    if (s->panel.count <= plan->cols / 2) { /* columns that the products leave */
        memset(s->weight, 0, (size_t)(ZT_KEYS * plan->cols) * sizeof(float));
        memset(s->score_grad, 0, (size_t)(ZT_KEYS * plan->cols) * sizeof(float));
    }
    zt_attention_pack_panel(plan, &s->panel, input(b, ZT_Q, &a->q, j->head), a->q.row, a->size, s->q);
    zt_attention_pack_panel(plan, &s->panel, input(b, ZT_ATTENTION_INS + ZT_Y, &a->y, j->head), a->y.row, a->v_size,
                            s->dy);
    zt_attention_pack_panel(plan, &s->panel, input(b, ZT_SAVED_Y, &a->y, j->head), a->y.row, a->v_size, b->y);
    plan->kernels->dot(a->v_size, s->dy, b->y, s->delta);
    const float *statistics = (const float *)j->call->in[ZT_SAVED_STATISTICS].data +
                              ((j->batch * a->heads + j->head) * 2) * a->queries + s->panel.first;
    memset(s->max, 0, sizeof s->max);
    memset(s->inverse, 0, sizeof s->inverse);
    memcpy(s->max, statistics, (size_t)s->panel.count * sizeof *statistics);
    memcpy(s->inverse, statistics + a->queries, (size_t)s->panel.count * sizeof *statistics);
}

/* Rows first.. of queries as the right side of a product, zeros up to whole panels. */
static void pack_right(const struct backward *b, const float *from, int64_t row, int64_t first, int64_t size,
                       float *to) {
    const struct zt_attention_plan *plan = b->job.plan;
    int64_t rows = (int64_t)ZT_PANELS * plan->cols, count = zt_min_int(rows, plan->a.queries - first);
    for (int64_t c = 0; c < size; c += plan->cols) {
        plan->gemm->pack_cols(from + first * row + c, 1, row, (int)zt_min_int(plan->cols, size - c), count,
                              to + c * rows);
        memset(to + c * rows + count * plan->cols, 0, (size_t)((rows - count) * plan->cols) * sizeof *to);
    }
}

/* Computes p and ds of a panel and a block of keys; rows of keys that no query sees become zeros, up to `keys`. */
static void side_block(struct backward *b, struct side *s, int64_t at, int64_t keys) {
    const struct zt_attention_plan *plan = b->job.plan;
    const struct zt_attention *a = &plan->a;
    struct zt_score_tile tile;
    s->keys = zt_max_int(0, zt_min_int(keys, s->panel.most - at));
    if (at + keys <= s->panel.least || s->keys == 0 ||
        !zt_attention_tile(&b->job, &s->panel, at, s->keys, s->weight, &tile))
        s->keys = 0;
    size_t hidden = (size_t)((keys - s->keys) * plan->cols) * sizeof(float);
    memset(s->weight + s->keys * plan->cols, 0, hidden);
    memset(s->score_grad + s->keys * plan->cols, 0, hidden);
    if (s->keys == 0)
        return;
    struct zt_panel_product scores = { &s->panel, b->k + at * a->size, s->q,  s->keys,  a->size,
                                       a->size,   (float)a->scale,     false, s->weight };
    struct zt_panel_product grads = { &s->panel, b->v + at * a->v_size, s->dy, s->keys, a->v_size, a->v_size, 1,
                                      false,     s->score_grad };
    zt_attention_multiply(plan, &scores);
    zt_attention_multiply(plan, &grads);
    plan->kernels->differentiate(&tile, s->max, s->inverse, s->delta, s->score_grad, b->slope);
    struct zt_heads mask = mask_gradient(a);
    float *dmask = output(b, ZT_DMASK, &mask, b->job.head);
    if (dmask)
        zt_attention_store_panel(&b->job, &s->panel, s->score_grad, s->keys, dmask + at, mask.row);
    if (a->softcap > 0)
        plan->kernels->multiply(s->keys, b->slope, s->score_grad);
}

/* A product that adds to dk or dv of a block of keys: y [keys][size] += alpha left right. */
struct key_product {
    bool weights;       /* left: p, else ds */
    const float *right; /* dy or q, packed */
    int64_t size;       /* columns */
    float alpha;
    float *y;
    int64_t y_row; /* elements from one row of y to the next */
};

/* Adds the product for panels [from, end) and `keys` keys. */
static void add_rows(struct backward *b, const struct key_product *p, int from, int end, int64_t keys) {
    const struct zt_attention_plan *plan = b->job.plan;
    const int64_t rows = (int64_t)ZT_PANELS * plan->cols, depth = (int64_t)(end - from) * plan->cols;
    for (int i = from; i < end; i++)
        for (int64_t r = 0; r < keys; r += plan->rows) {
            const float *left = p->weights ? b->side[i].weight : b->side[i].score_grad;
            plan->gemm->pack_rows(left + r * plan->cols, plan->cols, 1, zt_min_int(plan->rows, keys - r), plan->cols,
                                  b->left + r * depth + (int64_t)(i - from) * plan->cols * plan->rows);
        }
    const int64_t queries = depth - plan->cols + b->side[end - 1].panel.count; /* the rest are zeros */
    struct zt_simd_gemm_tile t = {
        .b_row = plan->cols, .depth = queries, .y_row = p->y_row, .alpha = p->alpha, .add = 1
    };
    for (int64_t c = 0; c < p->size; c += plan->cols) {
        t.b = p->right + c * rows + (int64_t)from * plan->cols * plan->cols;
        t.cols = (int)zt_min_int(plan->cols, p->size - c);
        for (int64_t r = 0; r < keys; r += plan->rows) {
            t.a = b->left + r * depth;
            t.rows = (int)zt_min_int(plan->rows, keys - r);
            t.y = p->y + r * p->y_row + c;
            plan->gemm->tile(&t);
        }
    }
}

static void key_block(struct backward *b, int64_t at, int64_t keys) {
    const struct zt_attention_plan *plan = b->job.plan;
    const struct zt_attention *a = &plan->a;
    int from = b->sides, end = 0;
    for (int i = 0; i < b->sides; i++) {
        side_block(b, &b->side[i], at, keys);
        if (b->side[i].keys == 0)
            continue;
        from = i < from ? i : from;
        end = i + 1;
    }
    if (from >= end)
        return;
    struct key_product dv = { true, b->dy, a->v_size, 1, output(b, a->v.tensor, &a->v, b->job.kv_head), a->v.row };
    struct key_product dk = { false,   b->q, a->size, (float)a->scale, output(b, a->k.tensor, &a->k, b->job.kv_head),
                              a->k.row };
    if (dv.y) {
        dv.y += at * dv.y_row;
        add_rows(b, &dv, from, end, keys);
    }
    if (dk.y) {
        dk.y += at * dk.y_row;
        add_rows(b, &dk, from, end, keys);
    }
    for (int i = from; i < end; i++) {
        struct side *s = &b->side[i];
        struct zt_panel_product dq = { &s->panel,
                                       b->k_columns + at * plan->rows,
                                       s->score_grad,
                                       a->size,
                                       s->keys,
                                       a->keys,
                                       (float)a->scale,
                                       s->any,
                                       s->dq };
        if (s->keys == 0)
            continue;
        zt_attention_multiply(plan, &dq);
        s->any = true;
    }
}

static void query_block(struct backward *b, int64_t first) {
    const struct zt_attention_plan *plan = b->job.plan;
    const struct zt_attention *a = &plan->a;
    int64_t least = a->keys, most = 0;
    for (b->sides = 0; b->sides < ZT_PANELS && first + b->sides * plan->cols < a->queries; b->sides++) {
        struct side *s = &b->side[b->sides];
        begin_side(b, s, first + b->sides * plan->cols);
        least = zt_min_int(least, s->panel.least);
        most = zt_max_int(most, s->panel.most);
    }
    pack_right(b, input(b, ZT_Q, &a->q, b->job.head), a->q.row, first, a->size, b->q);
    pack_right(b, input(b, ZT_ATTENTION_INS + ZT_Y, &a->y, b->job.head), a->y.row, first, a->v_size, b->dy);
    for (int64_t at = least; at < most; at += ZT_KEYS)
        key_block(b, at, zt_min_int(ZT_KEYS, most - at));
    float *dq = output(b, ZT_DQ, &a->q, b->job.head);
    for (int i = 0; dq && i < b->sides; i++) {
        struct side *s = &b->side[i];
        if (!s->any)
            memset(s->dq, 0, (size_t)(a->size * plan->cols) * sizeof(float));
        zt_attention_store_panel(&b->job, &s->panel, s->dq, a->size, dq, a->q.row);
    }
}

/* ---- units ---- */

static void clear_rows(float *to, int64_t rows, int64_t row, int64_t size) {
    for (int64_t i = 0; to && i < rows; i++)
        memset(to + i * row, 0, (size_t)size * sizeof *to);
}

static void backward_unit(void *arg, int64_t unit) {
    const struct zt_call *call = arg;
    const struct zt_attention_plan *plan = call->state;
    const struct zt_attention *a = &plan->a;
    struct backward b = { .job = { .call = call, .plan = plan, .batch = unit / a->kv_heads } };
    int64_t kv_head = unit % a->kv_heads, group = a->heads / a->kv_heads;
    b.job.kv_head = kv_head;
    lay_out(plan, (float *)call->workspace + zt_parallel_thread() * plan->elems, &b);
    const float *k = input(&b, a->k.tensor, &a->k, kv_head), *v = input(&b, a->v.tensor, &a->v, kv_head);
    plan->gemm->pack_rows(k, a->k.row, 1, a->keys, a->size, b.k);
    plan->gemm->pack_rows(v, a->v.row, 1, a->keys, a->v_size, b.v);
    plan->gemm->pack_rows(k, 1, a->k.row, a->size, a->keys, b.k_columns);
    clear_rows(output(&b, a->k.tensor, &a->k, kv_head), a->keys, a->k.row, a->size);
    clear_rows(output(&b, a->v.tensor, &a->v, kv_head), a->keys, a->v.row, a->v_size);
    for (b.job.head = kv_head * group; b.job.head < (kv_head + 1) * group; b.job.head++) {
        struct zt_heads mask = mask_gradient(a);
        clear_rows(output(&b, ZT_DMASK, &mask, b.job.head), a->queries, a->mask_length, a->mask_length);
        for (int64_t first = 0; first < a->queries; first += (int64_t)ZT_PANELS * plan->cols)
            query_block(&b, first);
    }
}

bool zt_attention_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_attention_plan *plan = call->state;
    zt_parallel_for(call->threads, plan->a.batch * plan->a.kv_heads, backward_unit, (void *)call);
    return true;
}
