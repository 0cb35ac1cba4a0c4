#include "ops/attention/attention_cpu.h"

#include "ops/attention/kernels.h"
#include "ops/attention/small_heads_cpu.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

/* One panel of the block of queries. */
struct side {
    struct zt_panel panel;
    float *q, *dy, *dq;         /* [size][query] */
    float *weight, *score_grad; /* p and ds, [ZT_KEYS][query], adjacent to those of the next panel */
    float max[ZT_MOST_COLS], inverse[ZT_MOST_COLS], delta[ZT_MOST_COLS];
    int64_t keys; /* rows of the block of keys that the panel sees, 0: none */
    bool any;     /* dq holds something */
};

struct backward {
    struct zt_attention_job job;
    float *k, *v, *k_columns; /* packed rows of k, v and k^T */
    struct side side[ZT_PANELS];
    int sides;
    /* what is not read in place: */
    float *q, *dy; /* rows of the block of queries as right sides: [panel of columns][row][column] */
    float *left;   /* packed rows of p^T or ds^T: [tile of keys][row of the block][key] */

    float *right;    /* ds as a right side */
    float *dk, *dv;  /* sums of bfloat16 tensors in float, [keys][size]; others are summed in place */
    int64_t written; /* rows of them that hold sums */
    float *y, *slope;
};

/* Whether the products of dk or dv with whole tiles of `size` columns read floats where they are. */
static bool in_place(const struct zt_attention_plan *plan, int64_t size) {
    return plan->gemm->depths == 1 && size % plan->cols == 0;
}

static int64_t lay_out(const struct zt_attention_plan *plan, float *base, struct backward *b) {
    const struct zt_attention *a = &plan->a;
    const int64_t rows = (int64_t)plan->panels * plan->cols, tile = (int64_t)ZT_KEYS * plan->cols;
    int64_t used = 0;
    b->k = zt_attention_take(base, &used, zt_attention_packed(plan, a->keys, a->size, plan->rows));
    b->v = zt_attention_take(base, &used, zt_attention_packed(plan, a->keys, a->v_size, plan->rows));
    b->k_columns = zt_attention_take(base, &used, zt_attention_packed(plan, a->size, a->keys, plan->rows));
    float *weight = zt_attention_take(base, &used, plan->panels * tile);
    float *score_grad = zt_attention_take(base, &used, plan->panels * tile);
    for (int i = 0; i < plan->panels; i++) {
        struct side *s = &b->side[i];
        s->q = zt_attention_take(base, &used, zt_attention_words(plan, a->size) * plan->cols);
        s->dq = zt_attention_take(base, &used, a->size * plan->cols);
        s->dy = zt_attention_take(base, &used, zt_attention_words(plan, a->v_size) * plan->cols);
        s->weight = base ? weight + i * tile : NULL;
        s->score_grad = base ? score_grad + i * tile : NULL;
    }
    if (!in_place(plan, a->size))
        b->q = zt_attention_take(base, &used, zt_attention_packed(plan, a->size, rows, plan->cols));
    if (!in_place(plan, a->v_size))
        b->dy = zt_attention_take(base, &used, zt_attention_packed(plan, a->v_size, rows, plan->cols));
    if (!in_place(plan, a->size) || !in_place(plan, a->v_size))
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
    plan.small = plan.dtype == ZT_FLOAT && zt_small_heads_fit(p->graph, p->node, &plan.a);
    plan.elems = plan.small ? zt_small_heads_elems(&plan, true) : lay_out(&plan, NULL, &b);
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
    if (plan->gemm->depths == 2) /* the last word of an odd number of queries has a number more */
        memset(s->score_grad, 0, (size_t)(ZT_KEYS * plan->cols) * sizeof(float));
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
    zt_attention_multiply(&b->job, &scores);
    zt_attention_multiply(&b->job, &grads);
    plan->kernels->differentiate(&tile, s->max, s->inverse, s->delta, s->score_grad, b->slope);
    struct zt_heads mask = mask_gradient(a);
    float *dmask = output(b, ZT_DMASK, &mask, b->job.head);
    if (dmask) /* of float tensors */
        zt_attention_store_panel(&b->job, &s->panel, s->score_grad, s->keys, dmask + at, mask.row);
    if (a->softcap > 0)
        plan->kernels->multiply(s->keys, b->slope, s->score_grad);
}

/* A product for dk or dv of a block of keys: y [keys][size] (+)= alpha left right. */
struct key_product {
    bool weights;       /* left: p, else ds */
    int64_t size;       /* columns */
    const float *right; /* dy or q of the block of queries, packed or where they are */
    int64_t row, step;  /* from one row of it to the next; panel c / cols of columns begins at c step */
    float alpha;
    bool add; /* else y = */
    float *y;
    int64_t y_row; /* elements from one row of y to the next */
};

/* Packs the product's left side, for panels [from, end) and `keys` keys. */
static void pack_left(struct backward *b, const struct key_product *p, int from, int end, int64_t keys) {
    const struct zt_attention_plan *plan = b->job.plan;
    const int64_t cols = zt_attention_words(plan, plan->cols), depth = (end - from) * cols;
    for (int i = from; i < end; i++)
        for (int64_t r = 0; r < keys; r += plan->rows) {
            const float *left = p->weights ? b->side[i].weight : b->side[i].score_grad;
            plan->gemm->pack_rows(left + r * plan->cols, plan->cols, 1, zt_min_int(plan->rows, keys - r), plan->cols,
                                  b->left + r * depth + (i - from) * cols * plan->rows);
        }
}

/* Computes the product for panels [from, end) and `keys` keys. */
static void multiply_keys(struct backward *b, const struct key_product *p, int from, int end, int64_t keys) {
    const struct zt_attention_plan *plan = b->job.plan;
    const int64_t cols = zt_attention_words(plan, plan->cols), depth = (end - from) * cols;
    const int64_t queries = depth - cols + zt_attention_words(plan, b->side[end - 1].panel.count); /* the rest: zeros */
    struct zt_simd_gemm_tiles t = { .a = b->left,
                                    .a_step = plan->rows * depth,
                                    .b_row = p->row,
                                    .depth = queries,
                                    .rows = keys,
                                    .y_row = p->y_row,
                                    .alpha = p->alpha,
                                    .add = p->add };
    if (in_place(plan, p->size)) {
        t.a = p->weights ? b->side[from].weight : b->side[from].score_grad;
        t.a_step = (int64_t)ZT_KEYS * plan->cols;
        t.a_panels = true;
    } else
        pack_left(b, p, from, end, keys);
    for (int64_t c = 0; c < p->size; c += plan->cols) {
        t.ahead[0] = zt_attention_fetch(&b->job, zt_ceil_div(keys, plan->rows));
        t.b = p->right + c * p->step + from * cols * p->row;
        t.cols = (int)zt_min_int(plan->cols, p->size - c);
        t.y = p->y + c;
        plan->gemm->tiles(&t);
    }
}

static void clear_rows(float *to, int64_t rows, int64_t row, int64_t size) {
    for (int64_t i = 0; to && i < rows; i++)
        memset(to + i * row, 0, (size_t)size * sizeof *to);
}

/* Where dk or dv is summed, and its rows' distance; NULL where it is not asked for. */
static float *sums(const struct backward *b, const struct zt_heads *of, int64_t size, int64_t *row) {
    const struct zt_attention *a = &b->job.plan->a;
    float *to = output(b, of->tensor, of, b->job.kv_head);
    *row = b->dk ? size : of->row;
    return to && b->dk ? of == &a->k ? b->dk : b->dv : to;
}

/* Rows [from, end) of the sums become zeros. */
static void clear_sums(const struct backward *b, int64_t from, int64_t end) {
    const struct zt_attention *a = &b->job.plan->a;
    int64_t k_row, v_row;
    float *dk = sums(b, &a->k, a->size, &k_row), *dv = sums(b, &a->v, a->v_size, &v_row);
    clear_rows(dk ? dk + from * k_row : NULL, end - from, k_row, a->size);
    clear_rows(dv ? dv + from * v_row : NULL, end - from, v_row, a->v_size);
}

/* Whether rows [from, end) of the sums are added to; else they are written, and nothing was before. */
static bool begin_rows(struct backward *b, int64_t from, int64_t end) {
    const bool add = from < b->written;
    if (end > b->written) {
        clear_sums(b, b->written, add ? end : from);
        b->written = end;
    }
    return add;
}

/* The product for dv, or that for dk, of the block of queries; without its sums. */
static struct key_product product_of(const struct backward *b, bool weights) {
    const struct zt_attention_plan *plan = b->job.plan;
    const struct zt_attention *a = &plan->a;
    const struct zt_heads *of = weights ? &a->y : &a->q;
    struct key_product p = { .weights = weights,
                             .size = weights ? a->v_size : a->size,
                             .right = weights ? b->dy : b->q,
                             .row = plan->cols,
                             .step = zt_attention_words(plan, (int64_t)plan->panels * plan->cols),
                             .alpha = weights ? 1 : (float)a->scale };
    if (in_place(plan, p.size)) {
        const float *rows = input(b, weights ? ZT_ATTENTION_INS + ZT_Y : ZT_Q, of, b->job.head);
        p.right = rows + b->side[0].panel.first * of->row;
        p.row = of->row;
        p.step = 1;
    }
    return p;
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
    struct key_product dv = product_of(b, true), dk = product_of(b, false);
    dv.y = sums(b, &a->v, a->v_size, &dv.y_row);
    dk.y = sums(b, &a->k, a->size, &dk.y_row);
    dv.add = dk.add = begin_rows(b, at, at + keys);
    if (dv.y) {
        dv.y += at * dv.y_row;
        multiply_keys(b, &dv, from, end, keys);
    }
    if (dk.y) {
        dk.y += at * dk.y_row;
        multiply_keys(b, &dk, from, end, keys);
    }
    for (int i = from; i < end; i++) {
        struct side *s = &b->side[i];
        if (s->keys == 0)
            continue;
        const float *k = b->k_columns + zt_attention_words(plan, at) * plan->rows,
                    *ds = zt_attention_right(plan, s->score_grad, s->keys, b->right);
        struct zt_panel_product dq = { &s->panel, k, ds, a->size, s->keys, a->keys, (float)a->scale, s->any, s->dq };
        zt_attention_multiply(&b->job, &dq);
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
    if (!in_place(plan, a->size))
        pack_right(b, input(b, ZT_Q, &a->q, b->job.head), a->q.row, first, a->size, b->q);
    if (!in_place(plan, a->v_size))
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

/* Stores the sums of a gradient, where it is asked for. */
static void give_rows(const struct backward *b, const struct zt_heads *of, const float *from, int64_t size) {
    const struct zt_attention_plan *plan = b->job.plan;
    void *to = output(b, of->tensor, of, b->job.kv_head);
    for (int64_t i = 0; to && i < plan->a.keys; i++)
        zt_attention_give(plan->dtype, from + i * size, size, zt_element(to, zt_dtype_bytes(plan->dtype), i * of->row));
}

/* Fetches rows of a head; none where a gradient is not asked for. */
static void fetch_rows(struct backward *b, const void *first, const struct zt_heads *of, int64_t rows, int64_t size) {
    if (first)
        zt_attention_fetch_rows(&b->job, first, of->row, rows, size);
}

/* Fetches what unit `unit` reads and writes, of its first head of queries. */
static void fetch_unit(struct backward *b, int64_t unit) {
    const struct zt_attention *a = &b->job.plan->a;
    const int64_t kv_head = unit % a->kv_heads, head = kv_head * (a->heads / a->kv_heads);
    const struct backward next = { .job = { .call = b->job.call, .plan = b->job.plan, .batch = unit / a->kv_heads } };
    if (next.job.batch == a->batch)
        return;
    fetch_rows(b, output(&next, ZT_DQ, &a->q, head), &a->q, a->queries, a->size);
    fetch_rows(b, input(&next, ZT_SAVED_Y, &a->y, head), &a->y, a->queries, a->v_size);
    fetch_rows(b, input(&next, ZT_ATTENTION_INS + ZT_Y, &a->y, head), &a->y, a->queries, a->v_size);
    fetch_rows(b, input(&next, ZT_Q, &a->q, head), &a->q, a->queries, a->size);
    fetch_rows(b, output(&next, a->v.tensor, &a->v, kv_head), &a->v, a->keys, a->v_size);
    fetch_rows(b, output(&next, a->k.tensor, &a->k, kv_head), &a->k, a->keys, a->size);
    fetch_rows(b, input(&next, a->v.tensor, &a->v, kv_head), &a->v, a->keys, a->v_size);
    fetch_rows(b, input(&next, a->k.tensor, &a->k, kv_head), &a->k, a->keys, a->size);
    zt_attention_fetch_beside(&b->job, a->heads / a->kv_heads, 4); /* s, dp, and rows of dk and dv */
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
    fetch_unit(&b, unit + 1);
    for (b.job.head = kv_head * group; b.job.head < (kv_head + 1) * group; b.job.head++) {
        struct zt_heads mask = mask_gradient(a);
        clear_rows(output(&b, ZT_DMASK, &mask, b.job.head), a->queries, a->mask_length, a->mask_length);
        for (int64_t first = 0; first < a->queries; first += (int64_t)plan->panels * plan->cols)
            query_block(&b, first);
    }
    clear_sums(&b, b.written, a->keys);
    if (b.dk) {
        give_rows(&b, &a->k, b.dk, a->size);
        give_rows(&b, &a->v, b.dv, a->v_size);
    }
}

bool zt_attention_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_attention_plan *plan = call->state;
    if (plan->small)
        zt_small_heads_backward(call);
    else
        zt_parallel_for(call->threads, plan->a.batch * plan->a.kv_heads, backward_unit, (void *)call);
    return true;
}
