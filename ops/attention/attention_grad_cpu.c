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
    float *q, *dy;  /* rows of the block of queries as right sides: [panel of columns][row][column] */
    float *left;    /* packed rows of p^T or ds^T: [tile of keys][row of the block][key] */
    float *right;   /* ds as a right side */
    float *dk, *dv; /* sums of bfloat16 tensors in float, [keys][size]; others are summed in place */
    float *y, *slope;
};

static int64_t lay_out(const struct zt_attention_plan *plan, float *base, struct backward *b) {
    const struct zt_attention *a = &plan->a;
    const int64_t rows = (int64_t)plan->panels * plan->cols, tile = (int64_t)ZT_KEYS * plan->cols;
    int64_t used = 0;
    b->k = zt_attention_take(base, &used, zt_attention_packed(plan, a->keys, a->size, plan->rows));
    b->v = zt_attention_take(base, &used, zt_attention_packed(plan, a->keys, a->v_size, plan->rows));
    b->k_columns = zt_attention_take(base, &used, zt_attention_packed(plan, a->size, a->keys, plan->rows));
    for (int i = 0; i < plan->panels; i++) {
        struct side *s = &b->side[i];
        s->q = zt_attention_take(base, &used, zt_attention_words(plan, a->size) * plan->cols);
        s->dq = zt_attention_take(base, &used, a->size * plan->cols);
        s->dy = zt_attention_take(base, &used, zt_attention_words(plan, a->v_size) * plan->cols);
        s->weight = zt_attention_take(base, &used, tile);
        s->score_grad = zt_attention_take(base, &used, tile);
    }
    b->q = zt_attention_take(base, &used, zt_attention_packed(plan, a->size, rows, plan->cols));
    b->dy = zt_attention_take(base, &used, zt_attention_packed(plan, a->v_size, rows, plan->cols));
    b->left = zt_attention_take(base, &used, ZT_KEYS * zt_attention_words(plan, rows));
    if (plan->dtype != ZT_FLOAT) {
        b->right = zt_attention_take(base, &used, zt_attention_words(plan, ZT_KEYS) * plan->cols);
        b->dk = zt_attention_take(base, &used, a->keys * a->size);
        b->dv = zt_attention_take(base, &used, a->keys * a->v_size);
    }
    b->y = zt_attention_take(base, &used, zt_attention_words(plan, a->v_size) * plan->cols);
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
    const enum zt_dtype dtype = zt_in(g, node, ZT_Q)->dtype;
    return dy && dy->dtype == dtype && statistics && statistics->dtype == ZT_FLOAT &&
           (dtype == ZT_FLOAT || !zt_out(g, node, ZT_DMASK)) && zt_attention_cpu_takes(g, node);
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

static const void *input(const struct backward *b, int in, const struct zt_heads *step, int64_t head) {
    return zt_attention_head(&b->job, &b->job.call->in[in], step, head);
}

/* A gradient, NULL where it is not asked for. */
static void *output(const struct backward *b, int out, const struct zt_heads *step, int64_t head) {
    const struct zt_call *call = b->job.call;
    return out < call->out_count && call->out[out].data ? zt_attention_head(&b->job, &call->out[out], step, head)
                                                        : NULL;
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
    (plan->gemm->depths == 2 ? plan->kernels->dot_pairs : plan->kernels->dot)(zt_attention_words(plan, a->v_size),
                                                                              s->dy, b->y, s->delta);
    const float *statistics = (const float *)j->call->in[ZT_SAVED_STATISTICS].data +
                              ((j->batch * a->heads + j->head) * 2) * a->queries + s->panel.first;
    memset(s->max, 0, sizeof s->max);
    memset(s->inverse, 0, sizeof s->inverse);
    memcpy(s->max, statistics, (size_t)s->panel.count * sizeof *statistics);
    memcpy(s->inverse, statistics + a->queries, (size_t)s->panel.count * sizeof *statistics);
}

/* Rows first.. of queries as the right side of a product, zeros up to whole panels. */
static void pack_right(const struct backward *b, const void *from, int64_t row, int64_t first, int64_t size,
                       float *to) {
    const struct zt_attention_plan *plan = b->job.plan;
    const int64_t rows = (int64_t)plan->panels * plan->cols, count = zt_min_int(rows, plan->a.queries - first);
    const int64_t words = zt_attention_words(plan, rows), used = zt_attention_words(plan, count);
    for (int64_t c = 0; c < size; c += plan->cols) {
        plan->given->pack_cols((const char *)from + (first * row + c) * plan->given->b_bytes, 1, row,
                               zt_min_int(plan->cols, size - c), count, to + c * words);
        memset(to + c * words + used * plan->cols, 0, (size_t)((words - used) * plan->cols) * sizeof *to);
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
    const float *k = b->k + at * zt_attention_words(plan, a->size),
                *v = b->v + at * zt_attention_words(plan, a->v_size);
    struct zt_panel_product scores = {
        &s->panel, k, s->q, s->keys, a->size, a->size, (float)a->scale, false, s->weight
    };
    struct zt_panel_product grads = { &s->panel, v, s->dy, s->keys, a->v_size, a->v_size, 1, false, s->score_grad };
    zt_attention_multiply(plan, &scores);
    zt_attention_multiply(plan, &grads);
    plan->kernels->differentiate(&tile, s->max, s->inverse, s->delta, s->score_grad, b->slope);
    struct zt_heads mask = mask_gradient(a);
    float *dmask = output(b, ZT_DMASK, &mask, b->job.head);
    if (dmask) /* of float tensors */
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
    const int64_t rows = zt_attention_words(plan, (int64_t)plan->panels * plan->cols),
                  cols = zt_attention_words(plan, plan->cols), depth = (end - from) * cols;
    for (int i = from; i < end; i++)
        for (int64_t r = 0; r < keys; r += plan->rows) {
            const float *left = p->weights ? b->side[i].weight : b->side[i].score_grad;
            plan->gemm->pack_rows(left + r * plan->cols, plan->cols, 1, zt_min_int(plan->rows, keys - r), plan->cols,
                                  b->left + r * depth + (i - from) * cols * plan->rows);
        }
    const int64_t queries = depth - cols + zt_attention_words(plan, b->side[end - 1].panel.count); /* the rest: zeros */
    struct zt_simd_gemm_tiles t = { .a = b->left,
                                    .a_step = plan->rows * depth,
                                    .b_row = plan->cols,
                                    .depth = queries,
                                    .rows = keys,
                                    .y_row = p->y_row,
                                    .alpha = p->alpha,
                                    .add = 1 };
    for (int64_t c = 0; c < p->size; c += plan->cols) {
        t.b = p->right + c * rows + from * cols * plan->cols;
        t.cols = (int)zt_min_int(plan->cols, p->size - c);
        t.y = p->y + c;
        plan->gemm->tiles(&t);
    }
}

/* Where dk or dv is summed, and its rows' distance; NULL where it is not asked for. */
static float *sums(const struct backward *b, const struct zt_heads *of, int64_t size, int64_t *row) {
    const struct zt_attention *a = &b->job.plan->a;
    float *to = output(b, of->tensor, of, b->job.kv_head);
    *row = b->dk ? size : of->row;
    return to && b->dk ? of == &a->k ? b->dk : b->dv : to;
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
    struct key_product dv = { true, b->dy, a->v_size, 1, NULL, 0 },
                       dk = { false, b->q, a->size, (float)a->scale, NULL, 0 };
    dv.y = sums(b, &a->v, a->v_size, &dv.y_row);
    dk.y = sums(b, &a->k, a->size, &dk.y_row);
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
        if (s->keys == 0)
            continue;
        const float *k = b->k_columns + zt_attention_words(plan, at) * plan->rows,
                    *ds = zt_attention_right(plan, s->score_grad, s->keys, b->right);
        struct zt_panel_product dq = { &s->panel, k, ds, a->size, s->keys, a->keys, (float)a->scale, s->any, s->dq };
        zt_attention_multiply(plan, &dq);
        s->any = true;
    }
}

static void query_block(struct backward *b, int64_t first) {
    const struct zt_attention_plan *plan = b->job.plan;
    const struct zt_attention *a = &plan->a;
    int64_t least = a->keys, most = 0;
    for (b->sides = 0; b->sides < plan->panels && first + b->sides * plan->cols < a->queries; b->sides++) {
        struct side *s = &b->side[b->sides];
        begin_side(b, s, first + b->sides * plan->cols);
        least = zt_min_int(least, s->panel.least);
        most = zt_max_int(most, s->panel.most);
    }
    pack_right(b, input(b, ZT_Q, &a->q, b->job.head), a->q.row, first, a->size, b->q);
    pack_right(b, input(b, ZT_ATTENTION_INS + ZT_Y, &a->y, b->job.head), a->y.row, first, a->v_size, b->dy);
    for (int64_t at = least; at < most; at += ZT_KEYS)
        key_block(b, at, zt_min_int(ZT_KEYS, most - at));
    void *dq = output(b, ZT_DQ, &a->q, b->job.head);
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

/* Stores the sums of a gradient, where it is asked for. */
static void give_rows(const struct backward *b, const struct zt_heads *of, const float *from, int64_t size) {
    const struct zt_attention_plan *plan = b->job.plan;
    void *to = output(b, of->tensor, of, b->job.kv_head);
    for (int64_t i = 0; to && i < plan->a.keys; i++)
        zt_attention_give(plan->dtype, from + i * size, size, zt_element(to, zt_dtype_bytes(plan->dtype), i * of->row));
}

static void backward_unit(void *arg, int64_t unit) {
    const struct zt_call *call = arg;
    const struct zt_attention_plan *plan = call->state;
    const struct zt_attention *a = &plan->a;
    struct backward b = { .job = { .call = call, .plan = plan, .batch = unit / a->kv_heads } };
    int64_t kv_head = unit % a->kv_heads, group = a->heads / a->kv_heads;
    b.job.kv_head = kv_head;
    lay_out(plan, (float *)call->workspace + zt_parallel_thread() * plan->elems, &b);
    const void *k = input(&b, a->k.tensor, &a->k, kv_head), *v = input(&b, a->v.tensor, &a->v, kv_head);
    plan->given->pack_rows(k, a->k.row, 1, a->keys, a->size, b.k);
    plan->given->pack_rows(v, a->v.row, 1, a->keys, a->v_size, b.v);
    plan->given->pack_rows(k, 1, a->k.row, a->size, a->keys, b.k_columns);
    int64_t k_row, v_row;
    float *dk = sums(&b, &a->k, a->size, &k_row), *dv = sums(&b, &a->v, a->v_size, &v_row);
    clear_rows(dk, a->keys, k_row, a->size);
    clear_rows(dv, a->keys, v_row, a->v_size);
    for (b.job.head = kv_head * group; b.job.head < (kv_head + 1) * group; b.job.head++) {
        struct zt_heads mask = mask_gradient(a);
        clear_rows(output(&b, ZT_DMASK, &mask, b.job.head), a->queries, a->mask_length, a->mask_length);
        for (int64_t first = 0; first < a->queries; first += (int64_t)plan->panels * plan->cols)
            query_block(&b, first);
    }
    if (b.dk) {
        give_rows(&b, &a->k, dk, a->size);
        give_rows(&b, &a->v, dv, a->v_size);
    }
}

bool zt_attention_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_attention_plan *plan = call->state;
    zt_parallel_for(call->threads, plan->a.batch * plan->a.kv_heads, backward_unit, (void *)call);
    return true;
}
