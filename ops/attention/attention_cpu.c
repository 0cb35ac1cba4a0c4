#include "ops/attention/attention_cpu.h"

#include "ops/attention/kernels.h"
#include "ops/attention/small_heads_cpu.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include "base/align.h"
#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 16 };

/* ---- plan ---- */

/* The products of this type; NULL: none. */
static const struct zt_simd_gemm_kernel *kernel_of(enum zt_dtype dtype) {
    return dtype == ZT_FLOAT ? zt_simd_gemm_best() : dtype == ZT_BFLOAT16 ? zt_simd_gemm_bfloat() : NULL;
}

bool zt_attention_cpu_takes(const struct zt_graph *g, int node) {
    struct zt_attention a;
    struct zt_err err = { 0 };
    const enum zt_dtype dtype = zt_in(g, node, ZT_Q)->dtype;
    for (int i = ZT_Q; i <= ZT_V; i++)
        if (zt_in(g, node, i) && zt_in(g, node, i)->dtype != dtype)
            return false;
    const struct zt_simd_gemm_kernel *gemm = kernel_of(dtype);
    return gemm && zt_attention_kernels(gemm->cols) && !zt_in(g, node, ZT_PAST_K) &&
           zt_attention_read(g, node, &a, &err) && a.batch * a.heads > 0 && a.queries > 0 && a.keys > 0 && a.size > 0 &&
           a.v_size > 0 && a.queries < INT32_MAX / 4 && a.keys < INT32_MAX / 4;
}

/* Panels of a block, of so many in all: 4, or 5 where that would leave a block of one, whose sums would be read and
 * written for little. */
static int panels_of(int64_t all) {
    return (int)zt_min_int(all, all % (ZT_PANELS - 1) == 1 ? ZT_PANELS : ZT_PANELS - 1);
}

bool zt_attention_cpu_plan(struct zt_prepare *p, struct zt_attention_plan *plan, struct zt_err *err) {
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    const enum zt_dtype dtype = zt_in(p->graph, p->node, ZT_Q)->dtype;
    *plan = (struct zt_attention_plan){ .dtype = dtype, .gemm = kernel_of(dtype), .floats = zt_simd_gemm_best() };
    plan->given = dtype == ZT_FLOAT ? plan->gemm : zt_simd_gemm_of_bfloat();
    plan->kernels = zt_attention_kernels(plan->gemm->cols);
    plan->rows = plan->gemm->rows;
    plan->cols = plan->gemm->cols;
    if (!zt_attention_read(p->graph, p->node, &plan->a, err))
        return false;
    plan->panels = panels_of(zt_ceil_div(plan->a.queries, plan->cols));
    return true;
}

/* ---- matrices in the order of the product's kernel ---- */

int64_t zt_attention_packed(const struct zt_attention_plan *plan, int64_t rows, int64_t depth, int tile) {
    return zt_ceil_div(rows, tile) * tile * zt_attention_words(plan, depth);
}

void zt_attention_pack_panel(const struct zt_attention_plan *plan, const struct zt_panel *panel, const void *from,
                             int64_t row, int64_t size, float *to) {
    const char *first = (const char *)from + panel->first * row * plan->given->b_bytes;
    plan->given->pack_cols(first, row, 1, panel->count, size, to);
}

const float *zt_attention_right(const struct zt_attention_plan *plan, const float *from, int64_t keys, float *room) {
    if (plan->gemm->depths == 1)
        return from;
    plan->gemm->pack_cols(from, 1, plan->cols, plan->cols, keys, room);
    return room;
}

void zt_attention_give(enum zt_dtype dtype, const float *from, int64_t count, void *to) {
    if (dtype == ZT_FLOAT)
        memcpy(to, from, (size_t)count * sizeof *from);
    else
        zt_simd_store(dtype, from, count, to);
}

/* Rows of `cols` floats, a number that the compiler knows, to rows that are `row` apart. */
static inline void store_rows(const float *from, const int cols, int count, float *to, int64_t row) {
    for (int i = 0; i < count; i++)
        memcpy(to + i * row, from + i * cols, (size_t)cols * sizeof *to);
}

void zt_attention_store_panel(const struct zt_attention_job *j, const struct zt_panel *panel, const float *from,
                              int64_t size, void *to, int64_t row) {
    const struct zt_attention_plan *plan = j->plan;
    const size_t bytes = zt_dtype_bytes(plan->dtype);
    for (int64_t c = 0; c < size; c += plan->cols) {
        int64_t width = zt_min_int(plan->cols, size - c);
        char *first = zt_element(to, bytes, panel->first * row + c);
        plan->floats->pack_cols(from + c * plan->cols, plan->cols, 1, (int)width, panel->count, j->stored);
        if (plan->dtype == ZT_FLOAT && width == 16 && plan->cols == 16)
            store_rows(j->stored, 16, panel->count, (float *)first, row);
        else if (plan->dtype == ZT_FLOAT && width == 32)
            store_rows(j->stored, 32, panel->count, (float *)first, row);
        else
            for (int i = 0; i < panel->count; i++)
                zt_attention_give(plan->dtype, j->stored + i * plan->cols, width, zt_element(first, bytes, i * row));
    }
}

/* Columns of a panel that its products write: its queries where they are few, half a panel, or all. */
static int width_of(const struct zt_attention_plan *plan, int queries) {
    if (queries <= plan->gemm->few)
        return queries;
    return queries <= plan->cols / 2 ? plan->cols / 2 : plan->cols;
}

void zt_attention_multiply(struct zt_attention_job *j, const struct zt_panel_product *p) {
    const struct zt_attention_plan *plan = j->plan;
    plan->gemm->tiles(&(struct zt_simd_gemm_tiles){
        .a = p->a,
        .b = p->b,
        .a_step = plan->rows * zt_attention_words(plan, p->length),
        .b_row = plan->cols,
        .depth = zt_attention_words(plan, p->depth),
        .rows = p->rows,
        .cols = width_of(plan, p->panel->count),
        .y = p->y,
        .y_row = plan->cols,
        .alpha = p->alpha,
        .add = p->add,
        .ahead = { zt_attention_fetch(j, zt_ceil_div(p->rows, plan->rows)) },
    });
}

/* ---- rows of the next unit ---- */

void zt_attention_fetch_rows(struct zt_attention_job *j, const void *first, int64_t row, int64_t count, int64_t size) {
    struct zt_attention_ahead *a = &j->ahead;
    const int64_t bytes = (int64_t)zt_dtype_bytes(j->plan->dtype);
    if (a->count == ZT_AHEAD)
        return;
    a->rows[a->count] = (struct zt_simd_gemm_ahead){ .at = first, .step = row * bytes, .rows = count };
    a->lines[a->count++] = count * zt_ceil_div(size * bytes, ZT_GEMM_LINE);
}

void zt_attention_fetch_beside(struct zt_attention_job *j, int64_t heads, int times) {
    const struct zt_attention_plan *plan = j->plan;
    const struct zt_attention *all = &plan->a;
    struct zt_attention_ahead *a = &j->ahead;
    const int64_t panels = heads * zt_ceil_div(all->queries, plan->cols);
    const int64_t tiles = times * zt_ceil_div(all->keys, plan->rows) +
                          zt_ceil_div(all->v_size, plan->rows) * zt_ceil_div(all->keys, ZT_KEYS);
    int64_t lines = 0;
    for (int i = 0; i < a->count; i++)
        lines += a->lines[i];
    if (lines * ZT_GEMM_LINE > ZT_AHEAD_BYTES)
        a->count = 0;
    a->each = zt_ceil_div(lines * (all->causal ? 2 : 1), panels * tiles);
}

struct zt_simd_gemm_ahead *zt_attention_fetch(struct zt_attention_job *j, int64_t tiles) {
    struct zt_attention_ahead *a = &j->ahead;
    while (a->count > 0 && a->lines[a->count - 1] <= 0)
        a->count--;
    if (a->count == 0)
        return NULL;
    struct zt_simd_gemm_ahead *rows = &a->rows[a->count - 1];
    rows->each = zt_min_int(a->each, zt_ceil_div(a->lines[a->count - 1], tiles));
    a->lines[a->count - 1] -= rows->each * tiles;
    return rows;
}

/* ---- panels of queries and their bias ---- */

struct zt_panel zt_attention_panel(const struct zt_attention_job *j, int64_t first) {
    const struct zt_attention_plan *plan = j->plan;
    struct zt_panel p = { .first = first, .count = (int)zt_min_int(plan->cols, plan->a.queries - first) };
    p.least = plan->a.keys;
    const bool alike = !plan->a.causal && plan->a.left < 0 && plan->a.right < 0; /* all queries see the same keys */
    int64_t from = 0, to = 0;
    for (int i = 0; i < p.count; i++) {
        if (i == 0 || !alike)
            zt_attention_visible(j->call, &plan->a, j->batch, first + i, &from, &to);
        p.from[i] = (int32_t)from;
        p.to[i] = (int32_t)to;
        if (from < to) {
            p.least = zt_min_int(p.least, from);
            p.most = zt_max_int(p.most, to);
        }
        p.masked = p.masked || p.from[i] != p.from[0] || p.to[i] != p.to[0];
    }
    p.masked = p.masked || p.count < plan->cols;
    p.least = zt_min_int(p.least, p.most) / plan->rows * plan->rows;
    return p;
}

/* Loads rows [0, rows) and columns [0, count) of a mask that is not float or not contiguous, as floats; a boolean mask
 * as 0 and -infinity. */
static void load_mask(const struct zt_matrix *mask, int rows, int64_t count, float *to) {
    double x[ZT_ELEMENT_BLOCK];
    for (int i = 0; i < rows; i++)
        for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
            int64_t n = zt_min_int(ZT_ELEMENT_BLOCK, count - at);
            zt_load_block(mask->dtype, mask->data, mask->offset + i * mask->row + at * mask->col, mask->col, n, x);
            for (int64_t k = 0; k < n; k++)
                to[i * ZT_KEYS + at + k] = mask->dtype != ZT_BOOL ? (float)x[k] : x[k] != 0 ? 0 : -INFINITY;
        }
}

bool zt_attention_tile(const struct zt_attention_job *j, const struct zt_panel *panel, int64_t first, int64_t keys,
                       float *score, struct zt_score_tile *tile) {
    const struct zt_attention_plan *plan = j->plan;
    const struct zt_attention *a = &plan->a;
    const struct zt_view *mask = j->call->in_count > ZT_MASK ? &j->call->in[ZT_MASK] : NULL;
    bool all = !panel->masked && panel->from[0] <= first && first + keys <= panel->to[0];
    *tile = (struct zt_score_tile){
        .score = score, .count = panel->count, .first = first, .keys = keys, .softcap = (float)a->softcap
    };
    tile->seen[0] = all ? NULL : panel->from;
    tile->seen[1] = panel->to;
    if (!mask || !mask->data)
        return true;
    int64_t step = a->mask_step[3], row = a->mask_step[2], count = zt_min_int(keys, a->mask_length - first);
    int64_t offset = j->batch * a->mask_step[0] + j->head * a->mask_step[1] + panel->first * row + first * step;
    tile->bias = j->bias;
    if (mask->dtype == ZT_FLOAT && step == 1) {
        plan->floats->pack_cols((const float *)mask->data + offset, row, 1, panel->count, count, j->bias);
    } else {
        const struct zt_matrix block = { mask->dtype, mask->data, offset, row, step };
        load_mask(&block, panel->count, count, j->rows);
        plan->floats->pack_cols(j->rows, ZT_KEYS, 1, panel->count, count, j->bias);
    }
    return plan->kernels->any(count, j->bias);
}

/* ---- forward ---- */

struct forward {
    struct zt_attention_job job;
    float *k, *v;                       /* packed rows of k and of v^T */
    float *q[ZT_PANELS], *y[ZT_PANELS]; /* [size][query] */
    float *score, *weight;              /* [ZT_KEYS][query]; weight: packed */
    float max[ZT_PANELS][ZT_MOST_COLS], sum[ZT_PANELS][ZT_MOST_COLS];
};

/* Scratch memory from `base` on; returns the floats it takes (base NULL: only counts). */
static int64_t lay_out(const struct zt_attention_plan *plan, float *base, struct forward *f) {
    const struct zt_attention *a = &plan->a;
    int64_t used = 0;
    f->k = zt_attention_take(base, &used, zt_attention_packed(plan, a->keys, a->size, plan->rows));
    f->v = zt_attention_take(base, &used, zt_attention_packed(plan, a->v_size, a->keys, plan->rows));
    for (int i = 0; i < plan->panels; i++) {
        f->q[i] = zt_attention_take(base, &used, zt_attention_words(plan, a->size) * plan->cols);
        f->y[i] = zt_attention_take(base, &used, a->v_size * plan->cols);
    }
    f->score = zt_attention_take(base, &used, (int64_t)ZT_KEYS * plan->cols);
    f->weight = zt_attention_take(base, &used, zt_attention_words(plan, ZT_KEYS) * plan->cols);
    f->job.bias = zt_attention_take(base, &used, (int64_t)ZT_KEYS * plan->cols);
    f->job.rows = zt_attention_take(base, &used, (int64_t)ZT_KEYS * plan->cols);
    f->job.stored = zt_attention_take(base, &used, (int64_t)plan->cols * plan->cols);
    return used;
}

bool zt_attention_cpu_supports(const struct zt_graph *g, int node) {
    for (int i = 1; i < g->nodes[node]->out_count; i++)
        if (zt_out(g, node, i) && !zt_attention_is_train(g->nodes[node]->op)) /* present rows and QK */
            return false;
    return zt_attention_cpu_takes(g, node);
}

bool zt_attention_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_attention_plan plan;
    struct forward f;
    if (!zt_attention_cpu_plan(p, &plan, err))
        return false;
    int64_t heads = plan.a.batch * plan.a.kv_heads, group = plan.a.heads / plan.a.kv_heads;
    int64_t blocks = group * zt_ceil_div(plan.a.queries, (int64_t)plan.panels * plan.cols);
    plan.parts = (int)zt_min_int(blocks, zt_ceil_div(UNITS, heads));
    plan.small = plan.dtype == ZT_FLOAT && zt_small_heads_fit(p->graph, p->node, &plan.a);
    plan.elems = plan.small ? zt_small_heads_elems(&plan, false) : lay_out(&plan, NULL, &f);
    p->workspace_bytes = (size_t)plan.elems * sizeof(float) * (size_t)zt_max_int(p->threads, 1);
    struct zt_attention_plan *state = zt_calloc(1, sizeof *state);
    *state = plan;
    p->state = state;
    return true;
}

void zt_attention_cpu_release(void *state) {
    free(state);
}

static void finish_panel(struct forward *f, int i, const struct zt_panel *panel, bool any) {
    const struct zt_attention_plan *plan = f->job.plan;
    const struct zt_attention *a = &plan->a;
    const struct zt_call *call = f->job.call;
    float inverse[ZT_MOST_COLS];
    for (int c = 0; c < plan->cols; c++)
        inverse[c] = f->sum[i][c] != 0 ? 1 / f->sum[i][c] : 0;
    if (any)
        plan->kernels->scale(a->v_size, inverse, f->y[i]);
    else
        memset(f->y[i], 0, (size_t)(a->v_size * plan->cols) * sizeof(float));
    zt_attention_store_panel(&f->job, panel, f->y[i], a->v_size,
                             zt_attention_head(&f->job, &call->out[0], &a->y, f->job.head), a->y.row);
    if (call->out_count < 2 || !call->out[1].data)
        return;
    float *statistics =
        (float *)call->out[1].data + ((f->job.batch * a->heads + f->job.head) * 2) * a->queries + panel->first;
    memcpy(statistics, f->max[i], (size_t)panel->count * sizeof *statistics);
    memcpy(statistics + a->queries, inverse, (size_t)panel->count * sizeof *statistics);
}

static void forward_block(struct forward *f, int64_t first) {
    const struct zt_attention_plan *plan = f->job.plan;
    const struct zt_attention *a = &plan->a;
    struct zt_panel panel[ZT_PANELS];
    bool any[ZT_PANELS] = { false };
    int64_t least = a->keys, most = 0;
    int count = 0;
    const void *q = zt_attention_head(&f->job, &f->job.call->in[ZT_Q], &a->q, f->job.head);
    for (; count < plan->panels && first + count * plan->cols < a->queries; count++) {
        panel[count] = zt_attention_panel(&f->job, first + count * plan->cols);
        zt_attention_pack_panel(plan, &panel[count], q, a->q.row, a->size, f->q[count]);
        memset(f->max[count], 0, sizeof f->max[count]);
        memset(f->sum[count], 0, sizeof f->sum[count]);
        least = zt_min_int(least, panel[count].least);
        most = zt_max_int(most, panel[count].most);
    }
    for (int64_t at = least; at < most; at += ZT_KEYS) {
        for (int i = 0; i < count; i++) {
            struct zt_score_tile tile;
            float correct[ZT_MOST_COLS];
            int64_t keys = zt_min_int(ZT_KEYS, panel[i].most - at);
            if (keys <= 0 || at + keys <= panel[i].least ||
                !zt_attention_tile(&f->job, &panel[i], at, keys, f->score, &tile))
                continue;
            const float *k = f->k + at * zt_attention_words(plan, a->size);
            struct zt_panel_product scores = { &panel[i],       k,     f->q[i], keys, a->size, a->size,
                                               (float)a->scale, false, f->score };
            zt_attention_multiply(&f->job, &scores);
            if (plan->kernels->exp_scores(&tile, f->max[i], f->sum[i], correct) && any[i])
                plan->kernels->scale(a->v_size, correct, f->y[i]);
            const float *v = f->v + zt_attention_words(plan, at) * plan->rows,
                        *weight = zt_attention_right(plan, f->score, keys, f->weight);
            struct zt_panel_product values = { &panel[i], v, weight, a->v_size, keys, a->keys, 1, any[i], f->y[i] };
            zt_attention_multiply(&f->job, &values);
            any[i] = true;
        }
    }
    for (int i = 0; i < count; i++)
        finish_panel(f, i, &panel[i], any[i]);
}

/* Fetches k, v and the first q of unit `unit`. */
static void fetch_unit(struct forward *f, int64_t unit) {
    const struct zt_attention_plan *plan = f->job.plan;
    const struct zt_attention *a = &plan->a;
    const struct zt_call *call = f->job.call;
    const struct zt_attention_job next = { .call = call, .plan = plan, .batch = unit / plan->parts / a->kv_heads };
    const int64_t kv_head = unit / plan->parts % a->kv_heads, group = a->heads / a->kv_heads;
    if (next.batch == a->batch)
        return;
    const void *q = zt_attention_head(&next, &call->in[ZT_Q], &a->q, kv_head * group),
               *k = zt_attention_head(&next, &call->in[a->k.tensor], &a->k, kv_head),
               *v = zt_attention_head(&next, &call->in[a->v.tensor], &a->v, kv_head);
    zt_attention_fetch_rows(&f->job, zt_attention_head(&next, &call->out[0], &a->y, kv_head * group), a->y.row,
                            a->queries, a->v_size);
    zt_attention_fetch_rows(&f->job, q, a->q.row, a->queries, a->size);
    zt_attention_fetch_rows(&f->job, v, a->v.row, a->keys, a->v_size);
    zt_attention_fetch_rows(&f->job, k, a->k.row, a->keys, a->size);
    zt_attention_fetch_beside(&f->job, zt_ceil_div(group, plan->parts), 1);
}

static void forward_unit(void *arg, int64_t unit) {
    const struct zt_call *call = arg;
    const struct zt_attention_plan *plan = call->state;
    const struct zt_attention *a = &plan->a;
    struct forward f = { .job = { .call = call, .plan = plan } };
    int64_t part = unit % plan->parts, group = a->heads / a->kv_heads, step = (int64_t)plan->panels * plan->cols;
    f.job.kv_head = unit / plan->parts % a->kv_heads;
    f.job.batch = unit / plan->parts / a->kv_heads;
    lay_out(plan, (float *)call->workspace + zt_parallel_thread() * plan->elems, &f);
    const void *k = zt_attention_head(&f.job, &call->in[a->k.tensor], &a->k, f.job.kv_head),
               *v = zt_attention_head(&f.job, &call->in[a->v.tensor], &a->v, f.job.kv_head);
    plan->given->pack_rows(k, a->k.row, 1, a->keys, a->size, f.k);
    plan->given->pack_rows(v, 1, a->v.row, a->v_size, a->keys, f.v);
    int64_t blocks = zt_ceil_div(a->queries, step), all = group * blocks;
    fetch_unit(&f, unit + 1);
    for (int64_t i = all * part / plan->parts; i < all * (part + 1) / plan->parts; i++) {
        f.job.head = f.job.kv_head * group + i / blocks;
        forward_block(&f, i % blocks * step);
    }
}

bool zt_attention_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_attention_plan *plan = call->state;
    if (plan->small)
        zt_small_heads_forward(call);
    else
        zt_parallel_for(call->threads, plan->a.batch * plan->a.kv_heads * plan->parts, forward_unit, (void *)call);
    return true;
}
