/* A unit of work is a block of heads, one after the other in (batch, head). Matrices of the block are
 * [row][column][head] of `cols` heads; those that the last block lacks are zeros.
 *
 *     forward, of some queries      s = q k^T     p = exp(s - max)     y = p v / sum
 *     backward                      s = q k^T     p = exp(s - max) / sum     dp = dy v^T     ds = p (dp - delta)
 *                                   dv = p^T dy   dk = ds^T q          dq = ds k
 *
 * where delta is the sum over columns of dy y. */
#include "ops/attention/small_heads_cpu.h"

#include "ops/attention/kernels.h"
#include "ops/attention/simd_small_heads.h"

#include "device/threads.h"

#include <string.h>

enum {
    MOST_SCORES = 10 << 10, /* queries times keys */
    MOST_COLUMNS = 256,     /* of a head */
    BESIDE = 4              /* queries whose scores are computed at once, forward */
};

/* Products of panels fill their vectors better with more queries and keys, and use their registers better with more
 * columns: measured with 4 to 100 queries and keys, and 4 to 64 columns. */
static bool is_small(const struct zt_attention *a, int lanes) {
    const int64_t wide = INT64_C(1) << 19, narrow = INT64_C(1) << 17; /* AVX-512, AVX2 */
    const int64_t size = zt_max_int(a->size, a->v_size), scores = a->queries * a->keys;
    return size <= MOST_COLUMNS && scores <= MOST_SCORES &&
           scores * size * size <= (lanes == ZT_MOST_COLS ? wide : narrow);
}

bool zt_small_heads_fit(const struct zt_graph *g, int node, const struct zt_attention *a) {
    const struct zt_simd_gemm_kernel *floats = zt_simd_gemm_best();
    return floats && zt_lane_product() && zt_attention_kernels(floats->cols) && !zt_in(g, node, ZT_MASK) &&
           !zt_in(g, node, ZT_PAST_K) && !zt_in(g, node, ZT_NONPAD) && a->softcap == 0 && a->heads == a->kv_heads &&
           a->queries > 0 && a->keys > 0 && is_small(a, floats->cols) && a->batch * a->heads >= floats->cols;
}

bool zt_attention_cpu_prefers_float(const struct zt_graph *g, int node) {
    struct zt_attention a;
    struct zt_err err = { 0 };
    return zt_cpu_lacks_bf16(g, node) || (zt_attention_read(g, node, &a, &err) && zt_small_heads_fit(g, node, &a));
}

/* A block of heads and its matrices. */
struct block {
    const struct zt_call *call;
    const struct zt_attention_plan *plan;
    int64_t first; /* of all heads */
    int count;
    float *q, *k, *v, *y, *dy; /* dy: backward only */
    float *score, *grad;       /* p and ds; forward p of BESIDE queries */
    float *dq, *dk, *dv;       /* backward */
    float *max, *inverse;      /* [query][head] */
    float *stored;             /* a transposed tile */
};

static int64_t lay_out(const struct zt_attention_plan *plan, bool backward, float *base, struct block *b) {
    const struct zt_attention *a = &plan->a;
    const int64_t lanes = plan->cols, queries = a->queries * lanes, keys = a->keys * lanes;
    int64_t used = 0;
    b->q = zt_attention_take(base, &used, queries * a->size);
    b->k = zt_attention_take(base, &used, keys * a->size);
    b->v = zt_attention_take(base, &used, keys * a->v_size);
    b->y = zt_attention_take(base, &used, queries * a->v_size);
    b->max = zt_attention_take(base, &used, queries);
    b->inverse = zt_attention_take(base, &used, queries);
    b->stored = zt_attention_take(base, &used, lanes * lanes);
    b->score = zt_attention_take(base, &used, (backward ? a->queries : BESIDE) * keys);
    if (!backward)
        return used;
    b->grad = zt_attention_take(base, &used, a->queries * keys);
    b->dy = zt_attention_take(base, &used, queries * a->v_size);
    b->dq = zt_attention_take(base, &used, queries * a->size);
    b->dk = zt_attention_take(base, &used, keys * a->size);
    b->dv = zt_attention_take(base, &used, keys * a->v_size);
    return used;
}

int64_t zt_small_heads_elems(const struct zt_attention_plan *plan, bool backward) {
    struct block b;
    return lay_out(plan, backward, NULL, &b);
}

/* ---- matrices of all heads ---- */

/* [rows, size] of every head, of the tensor `of`. */
struct matrix {
    const struct zt_view *of;
    const struct zt_heads *step;
    int64_t rows, size;
};

static float *head_at(const struct block *b, const struct matrix *m, int lane) {
    const int64_t head = b->first + lane, heads = b->plan->a.heads;
    return (float *)m->of->data + m->step->first + head / heads * m->step->batch + head % heads * m->step->head;
}

/* Whether each head's elements are adjacent, and heads equally far apart. */
static bool is_even(const struct block *b, const struct matrix *m) {
    return m->step->row == m->size && m->step->batch == b->plan->a.heads * m->step->head;
}

static void load(const struct block *b, struct matrix m, float *to) {
    const int64_t lanes = b->plan->cols;
    if (is_even(b, &m)) {
        b->plan->floats->pack_cols(head_at(b, &m, 0), m.step->head, 1, b->count, m.rows * m.size, to);
        return;
    }
    if (b->count < lanes)
        memset(to, 0, (size_t)(m.rows * m.size * lanes) * sizeof *to);
    for (int l = 0; l < b->count; l++) {
        const float *from = head_at(b, &m, l);
        for (int64_t r = 0; r < m.rows; r++)
            for (int64_t c = 0; c < m.size; c++)
                to[(r * m.size + c) * lanes + l] = from[r * m.step->row + c];
    }
}

/* Nothing where the tensor is not asked for. */
static void store(const struct block *b, const float *from, struct matrix m) {
    const int64_t lanes = b->plan->cols, all = m.rows * m.size;
    if (!m.of || !m.of->data)
        return;
    for (int64_t at = 0, count; at < all && is_even(b, &m); at += count) {
        count = zt_min_int(lanes, all - at);
        b->plan->floats->pack_cols(from + at * lanes, lanes, 1, count, b->count, b->stored);
        for (int l = 0; l < b->count; l++)
            memcpy(head_at(b, &m, l) + at, b->stored + l * lanes, (size_t)count * sizeof(float));
    }
    for (int l = 0; l < b->count && !is_even(b, &m); l++) {
        float *to = head_at(b, &m, l);
        for (int64_t r = 0; r < m.rows; r++)
            for (int64_t c = 0; c < m.size; c++)
                to[r * m.step->row + c] = from[(r * m.size + c) * lanes + l];
    }
}

/* Number `index` of the statistics of all queries: the maxima, then 1 / sums. */
static struct zt_heads statistics_of(const struct zt_attention *a, int index) {
    return (struct zt_heads){
        .batch = a->heads * 2 * a->queries, .head = 2 * a->queries, .row = 1, .first = index * a->queries
    };
}

/* Of the rows of both sides a_row and b_row floats apart: y [rows of a][rows of b] = alpha a b^T. */
static void multiply_rows(const struct block *b, struct zt_lane_product p) {
    p.a_term = p.b_term = b->plan->cols;
    p.a_row = p.b_col = p.depth * b->plan->cols;
    p.y_col = b->plan->cols;
    p.y_row = p.cols * b->plan->cols;
    p.lanes = b->count;
    zt_lane_product()(&p);
}

/* y [rows][cols] = alpha a b, with the steps of a given; b [depth][cols]. */
static void multiply(const struct block *b, struct zt_lane_product p) {
    p.b_term = p.y_row = p.cols * b->plan->cols;
    p.b_col = p.y_col = b->plan->cols;
    p.lanes = b->count;
    zt_lane_product()(&p);
}

/* The scores of query `i` with all keys, and the keys it sees. */
static struct zt_score_tile tile_of(const struct block *b, int64_t i, float *score, int32_t seen[2][ZT_MOST_COLS]) {
    const struct zt_attention *a = &b->plan->a;
    struct zt_score_tile t = { .score = score, .count = b->count, .keys = a->keys };
    int64_t from, to;
    zt_attention_visible(b->call, a, 0, i, &from, &to);
    if (from == 0 && to == a->keys)
        return t;
    for (int l = 0; l < b->plan->cols; l++) {
        seen[0][l] = (int32_t)from;
        seen[1][l] = (int32_t)to;
    }
    t.seen[0] = seen[0];
    t.seen[1] = seen[1];
    return t;
}

static struct block block_of(const struct zt_call *call, int64_t unit, bool backward) {
    const struct zt_attention_plan *plan = call->state;
    struct block b = { .call = call, .plan = plan, .first = unit * plan->cols };
    b.count = (int)zt_min_int(plan->cols, plan->a.batch * plan->a.heads - b.first);
    lay_out(plan, backward, (float *)call->workspace + zt_parallel_thread() * plan->elems, &b);
    return b;
}

static void run_blocks(const struct zt_call *call, void (*run)(void *, int64_t)) {
    const struct zt_attention_plan *plan = call->state;
    zt_parallel_for(call->threads, zt_ceil_div(plan->a.batch * plan->a.heads, plan->cols), run, (void *)call);
}

/* ---- forward ---- */

/* Query `i`, whose scores become weights that are not divided by their sum yet. */
static void weigh(const struct block *b, int64_t i, float *score) {
    const int lanes = b->plan->cols;
    int32_t seen[2][ZT_MOST_COLS];
    float correct[ZT_MOST_COLS], sum[ZT_MOST_COLS] = { 0 };
    const struct zt_score_tile t = tile_of(b, i, score, seen);
    memset(b->max + i * lanes, 0, (size_t)lanes * sizeof(float));
    b->plan->kernels->exp_scores(&t, b->max + i * lanes, sum, correct);
    for (int l = 0; l < lanes; l++)
        b->inverse[i * lanes + l] = sum[l] != 0 ? 1 / sum[l] : 0;
}

static void forward_block(void *arg, int64_t unit) {
    const struct zt_call *call = arg;
    const struct block b = block_of(call, unit, false);
    const struct zt_attention *a = &b.plan->a;
    const int64_t lanes = b.plan->cols;
    load(&b, (struct matrix){ &call->in[ZT_Q], &a->q, a->queries, a->size }, b.q);
    load(&b, (struct matrix){ &call->in[a->k.tensor], &a->k, a->keys, a->size }, b.k);
    load(&b, (struct matrix){ &call->in[a->v.tensor], &a->v, a->keys, a->v_size }, b.v);
    for (int64_t i = 0; i < a->queries; i += BESIDE) {
        const int64_t rows = zt_min_int(BESIDE, a->queries - i);
        float *y = b.y + i * a->v_size * lanes;
        multiply_rows(&b, (struct zt_lane_product){ .a = b.q + i * a->size * lanes,
                                                    .b = b.k,
                                                    .y = b.score,
                                                    .rows = rows,
                                                    .cols = a->keys,
                                                    .depth = a->size,
                                                    .alpha = (float)a->scale });
        for (int64_t r = 0; r < rows; r++)
            weigh(&b, i + r, b.score + r * a->keys * lanes);
        multiply(&b, (struct zt_lane_product){ .a = b.score,
                                               .b = b.v,
                                               .y = y,
                                               .rows = rows,
                                               .cols = a->v_size,
                                               .depth = a->keys,
                                               .a_row = a->keys * lanes,
                                               .a_term = lanes,
                                               .alpha = 1 });
        for (int64_t r = 0; r < rows; r++)
            b.plan->kernels->scale(a->v_size, b.inverse + (i + r) * lanes, y + r * a->v_size * lanes);
    }
    store(&b, b.y, (struct matrix){ &call->out[0], &a->y, a->queries, a->v_size });
    for (int s = 0; s < 2 && call->out_count > 1; s++) {
        const struct zt_heads step = statistics_of(a, s);
        store(&b, s == 0 ? b.max : b.inverse, (struct matrix){ &call->out[1], &step, a->queries, 1 });
    }
}

void zt_small_heads_forward(const struct zt_call *call) {
    run_blocks(call, forward_block);
}

/* ---- backward ---- */

/* What the node reads of the block, but y into delta's place. */
static void load_all(const struct block *b) {
    const struct zt_call *call = b->call;
    const struct zt_attention *a = &b->plan->a;
    load(b, (struct matrix){ &call->in[ZT_Q], &a->q, a->queries, a->size }, b->q);
    load(b, (struct matrix){ &call->in[a->k.tensor], &a->k, a->keys, a->size }, b->k);
    load(b, (struct matrix){ &call->in[a->v.tensor], &a->v, a->keys, a->v_size }, b->v);
    load(b, (struct matrix){ &call->in[ZT_ATTENTION_INS + ZT_Y], &a->y, a->queries, a->v_size }, b->dy);
    load(b, (struct matrix){ &call->in[ZT_SAVED_Y], &a->y, a->queries, a->v_size }, b->y);
    for (int s = 0; s < 2; s++) {
        const struct zt_heads step = statistics_of(a, s);
        load(b, (struct matrix){ &call->in[ZT_SAVED_STATISTICS], &step, a->queries, 1 }, s == 0 ? b->max : b->inverse);
    }
}

/* Computes p and ds of all queries. */
static void differentiate(const struct block *b) {
    const struct zt_attention *a = &b->plan->a;
    const int64_t lanes = b->plan->cols, row = a->keys * lanes;
    int32_t seen[2][ZT_MOST_COLS];
    float delta[ZT_MOST_COLS];
    struct zt_lane_product p = {
        .a = b->q, .b = b->k, .y = b->score, .rows = a->queries, .cols = a->keys, .depth = a->size
    };
    p.alpha = (float)a->scale;
    multiply_rows(b, p);
    p = (struct zt_lane_product){
        .a = b->dy, .b = b->v, .y = b->grad, .rows = a->queries, .cols = a->keys, .depth = a->v_size, .alpha = 1
    };
    multiply_rows(b, p);
    for (int64_t i = 0; i < a->queries; i++) {
        const struct zt_score_tile t = tile_of(b, i, b->score + i * row, seen);
        const int64_t at = i * a->v_size * lanes;
        b->plan->kernels->dot(a->v_size, b->dy + at, b->y + at, delta);
        b->plan->kernels->differentiate(&t, b->max + i * lanes, b->inverse + i * lanes, delta, b->grad + i * row, NULL);
    }
}

static void backward_block(void *arg, int64_t unit) {
    const struct zt_call *call = arg;
    const struct block b = block_of(call, unit, true);
    const struct zt_attention *a = &b.plan->a;
    const int64_t lanes = b.plan->cols, row = a->keys * lanes;
    load_all(&b);
    differentiate(&b);
    struct zt_lane_product to_v = {
        .a = b.score, .b = b.dy, .y = b.dv, .rows = a->keys, .cols = a->v_size, .depth = a->queries, .alpha = 1
    };
    struct zt_lane_product to_k = {
        .a = b.grad, .b = b.q, .y = b.dk, .rows = a->keys, .cols = a->size, .depth = a->queries
    };
    struct zt_lane_product to_q = {
        .a = b.grad, .b = b.k, .y = b.dq, .rows = a->queries, .cols = a->size, .depth = a->keys
    };
    to_k.alpha = to_q.alpha = (float)a->scale;
    to_v.a_row = to_k.a_row = to_q.a_term = lanes;
    to_v.a_term = to_k.a_term = to_q.a_row = row;
    multiply(&b, to_v);
    multiply(&b, to_k);
    multiply(&b, to_q);
    const struct zt_view *out = call->out;
    store(&b, b.dq, (struct matrix){ &out[ZT_DQ], &a->q, a->queries, a->size });
    store(&b, b.dk,
          (struct matrix){ a->k.tensor < call->out_count ? &out[a->k.tensor] : NULL, &a->k, a->keys, a->size });
    store(&b, b.dv,
          (struct matrix){ a->v.tensor < call->out_count ? &out[a->v.tensor] : NULL, &a->v, a->keys, a->v_size });
}

void zt_small_heads_backward(const struct zt_call *call) {
    run_blocks(call, backward_block);
}
