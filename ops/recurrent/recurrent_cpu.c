#include "ops/recurrent/recurrent_cpu.h"

#include "device/threads.h"
#include "ops/kernel/tile.h"

#include <math.h>
#include <string.h>

/* ---- which nodes ---- */

static bool read_gate(const struct zt_gate_function *from, float clip, struct zt_simd_gate *to) {
    static const enum zt_simd_gate_kind kind[] = {
        [ZT_GATE_SIGMOID] = ZT_SIMD_SIGMOID, [ZT_GATE_TANH] = ZT_SIMD_TANH, [ZT_GATE_RELU] = ZT_SIMD_RELU
    };
    const int plain = zt_gate_plain(from);
    if (plain < 0)
        return false;
    to->kind = kind[plain];
    zt_simd_gate_clip(to, clip);
    return true;
}

bool zt_recurrent_cpu_supports(const struct zt_cell *cell, const struct zt_graph *g, int node) {
    struct zt_recurrent r;
    struct zt_err err = { 0 };
    struct zt_simd_gate gate = { 0 };
    if (!zt_simd_gemm_best() || zt_in(g, node, 0)->dtype != ZT_FLOAT || !zt_recurrent_read(cell, g, node, &r, &err))
        return false;
    for (int i = 0; i < cell->functions * (int)r.directions; i++)
        if (!read_gate(&r.function[i / cell->functions][i % cell->functions], INFINITY, &gate))
            return false;
    return r.steps > 0 && r.rows > 0 && r.input > 0 && r.hidden > 0 && r.steps * r.rows <= INT32_MAX;
}

/* ---- products ---- */

static const struct zt_simd_gemm_kernel *kernel_of(const struct zt_node *n) {
    const bool bfloat = zt_simd_gemm_bfloat() && zt_attr_int(n, "bfloat_products", 0);
    return bfloat ? zt_simd_gemm_bfloat() : zt_simd_gemm_best();
}

static struct zt_simd_gemm product_of(const struct zt_recurrent *r, enum zt_direction_product which) {
    const int64_t h = r->hidden, wide = zt_direction_width(r), last = r->cell->apart * h;
    const int64_t places = r->steps * r->rows, last_row = r->on ? h : wide; /* of u, or of da_g */
    struct zt_simd_gemm g = { .count = 1, .alpha = 1, .beta = 1, .bias_col = 1, .a_col = 1, .b_col = 1 };
#define SIZES(M, N, K) g.m = (M), g.n = (N), g.k = (K)
    switch (which) {
    case ZT_DIRECTION_GATES:
        SIZES(places, wide, r->input), g.a_row = r->input, g.b_row = 1, g.b_col = r->input, g.y_row = wide;
        break;
    case ZT_DIRECTION_DX:
        SIZES(places, r->input, wide), g.a_row = wide, g.b_row = r->input, g.y_row = r->input;
        break;
    case ZT_DIRECTION_DW:
        SIZES(wide, r->input, places), g.a_row = 1, g.a_col = wide, g.b_row = r->input, g.y_row = r->input;
        break;
    case ZT_DIRECTION_DR:
        SIZES(wide - last, h, places), g.a_row = 1, g.a_col = wide, g.b_row = h, g.y_row = h;
        break;
    case ZT_DIRECTION_DR_LAST:
        SIZES(last, h, places), g.a_row = 1, g.a_col = last_row, g.b_row = h, g.y_row = h;
        break;
    case ZT_DIRECTION_PRODUCTS:
        break;
    }
#undef SIZES
    return g;
}

void zt_direction_multiply(const struct zt_direction *t, enum zt_direction_product which, bool add, const float *a,
                           const float *b, float *y) {
    struct zt_simd_gemm g = product_of(t->r, which);
    g.add = add;
    zt_simd_gemm_run(t->kernel, &g, &(struct zt_simd_gemm_operands){ a, b, NULL, y, NULL }, t->scratch, t->threads);
}

/* The gates of both directions are products of the same X, which is packed once. */
static void multiply_gates(const struct zt_direction *t) {
    const struct zt_recurrent *r = t->r;
    struct zt_simd_gemm g[2] = { product_of(r, ZT_DIRECTION_GATES), product_of(r, ZT_DIRECTION_GATES) };
    struct zt_simd_gemm_operands of[2];
    for (int64_t d = 0; d < r->directions; d++)
        of[d] = (struct zt_simd_gemm_operands){ t->call->in[0].data,
                                                zt_direction_in(&t[d], ZT_IN_W, zt_direction_width(r) * r->input),
                                                t[d].bias, t[d].gate, NULL };
    if (r->directions > 1) {
        g[0].beside = &g[1];
        of[0].beside = &of[1];
    }
    zt_simd_gemm_run(t->kernel, g, of, t->scratch, t->threads);
}

void zt_direction_multiply_da(const struct zt_direction *t, const float *x, float *dw, const float *h, float *dr) {
    struct zt_simd_gemm w = product_of(t->r, ZT_DIRECTION_DW), r = product_of(t->r, ZT_DIRECTION_DR);
    const struct zt_simd_gemm_operands of_r = { t->da, h, NULL, dr, NULL }, of_w = { t->da, x, NULL, dw, &of_r };
    w.beside = &r;
    zt_simd_gemm_run(t->kernel, &w, &of_w, t->scratch, t->threads);
}

/* R fits a quarter of the second cache: a step has one product with all gates, else one a gate. */
static bool is_small(const struct zt_recurrent *r) {
    enum { CACHED = 1 << 16 }; /* floats */
    return zt_direction_width(r) * r->hidden <= CACHED;
}

struct zt_step_product zt_direction_step_product(const struct zt_direction *t, bool backward, bool last) {
    const int64_t apart = t->r->cell->apart, gates = last ? apart : t->r->cell->gates - apart, h = t->r->hidden;
    if (gates == 0)
        return (struct zt_step_product){ .kernel = t->kernel };
    const int64_t blocks = is_small(t->r) ? 1 : gates, wide = gates * h / blocks;
    return backward ? (struct zt_step_product){ t->kernel, 1, h, blocks, wide }
                    : (struct zt_step_product){ t->kernel, blocks, wide, 1, h };
}

void zt_direction_pack(struct zt_direction *t, bool backward) {
    const int64_t h = t->r->hidden, wide = zt_direction_width(t->r);
    const float *recurrent = zt_direction_in(t, ZT_IN_R, wide * h);
    for (int last = 0; last <= t->r->cell->apart; last++) {
        struct zt_step_product p = zt_direction_step_product(t, backward, last);
        zt_step_product_pack_b(&p, last ? recurrent + (wide - h) * h : recurrent, backward ? h : 1, backward ? 1 : h,
                               last ? t->packed_last : t->packed, t->threads);
    }
}

/* ---- memory ---- */

static float *take(float *base, int64_t *at, int64_t count) {
    int64_t from = *at;
    *at += (count + 15) / 16 * 16;
    return base && count ? base + from : NULL;
}

/* Floats that any product over all steps needs on so many threads. */
static int64_t scratch_of(const struct zt_direction *t, int threads) {
    int64_t most = 0;
    for (int i = 0; i < ZT_DIRECTION_PRODUCTS; i++) {
        struct zt_simd_gemm g = product_of(t->r, (enum zt_direction_product)i);
        const struct zt_simd_gemm r = product_of(t->r, ZT_DIRECTION_DR), gates = g;
        g.beside = i == ZT_DIRECTION_DW ? &r : i == ZT_DIRECTION_GATES && t->r->directions > 1 ? &gates : NULL;
        if (g.m)
            most = zt_max_int(most, (int64_t)zt_simd_gemm_bytes(t->kernel, &g, threads));
    }
    return zt_ceil_div(most, 64) * 16;
}

/* How the steps of a direction are divided: pieces of its rows or of its hidden units, whose work of a step takes some
 * microseconds at least. */
struct division {
    bool by_units;
    int64_t pieces;
};

static struct division divide(const struct zt_direction *t, int64_t threads) {
    enum { LEAST_ROWS = 4, STREAMED_ROWS = 8, STREAMED = 1 << 20, LEAST_PRODUCTS = 1 << 17 };
    const struct zt_recurrent *r = t->r;
    const int64_t floats = zt_direction_width(r) * r->hidden;
    threads = zt_ceil_div(threads, r->directions);
    struct division d = { .by_units = !is_small(r) && (floats > STREAMED || r->rows < STREAMED_ROWS * threads) };
    const int64_t units = zt_min_int(zt_ceil_div(r->hidden, t->kernel->cols), r->rows * floats / LEAST_PRODUCTS);
    d.pieces = zt_max_int(1, zt_min_int(threads, d.by_units ? units : r->rows / LEAST_ROWS));
    return d;
}

/* Floats of a packed matrix of a step's products for so many rows. */
static int64_t step_floats(const struct zt_direction *t, bool backward, bool last, int64_t rows) {
    struct zt_step_product p = zt_direction_step_product(t, backward, last);
    return zt_ceil_div(zt_step_product_a(&p, rows), 16) * 16;
}

/* Of all pieces, for any division among so many pieces at most. */
static int64_t most_step_floats(const struct zt_direction *t, bool backward, bool last, int64_t pieces) {
    int64_t most = 0;
    for (int64_t n = 1; n <= pieces; n++)
        most = zt_max_int(most, n * step_floats(t, backward, last, zt_ceil_div(t->r->rows, n)));
    return most;
}

/* GRU and LSTM have a second state or product. Returns the next free place. */
static int64_t lay_out(struct zt_direction *t, float *base, int64_t at, bool backward, int64_t pieces) {
    const struct zt_recurrent *r = t->r;
    const int64_t h = r->hidden, wide = zt_direction_width(r), nh = r->rows * h, places = r->steps * r->rows;
    const int64_t apart = r->cell->apart;
    for (int last = 0; last <= apart; last++) {
        struct zt_step_product p = zt_direction_step_product(t, backward, last);
        *(last ? &t->packed_last : &t->packed) = take(base, &at, zt_step_product_b(&p));
        for (int turn = 0; turn < 2; turn++)
            (last ? t->last : t->seen)[turn] = take(base, &at, most_step_floats(t, backward, last, pieces));
    }
    t->h = take(base, &at, nh);
    t->c = take(base, &at, r->cell->ins > ZT_IN_C ? nh : 0);
    t->product = take(base, &at, apart ? nh : 0);
    if (backward) {
        t->da = take(base, &at, places * wide);
        t->u = take(base, &at, apart && r->on ? places * h : 0);
        t->before_h = take(base, &at, places * h);
        t->x = take(base, &at, t->cut ? places * r->input : 0);
        t->zero = take(base, &at, h);
        t->sum = take(base, &at, r->rows * wide);
        t->sum_u = take(base, &at, apart && r->on ? nh : 0);
    } else {
        t->bias = take(base, &at, wide);
        t->gate = take(base, &at, places * wide);
        t->saved = take(base, &at, apart ? places * h : 0);
    }
    return at;
}

int64_t zt_direction_lay_out(struct zt_direction *t, float *base, bool backward, int threads) {
    int64_t at = 0;
    float *scratch = take(base, &at, scratch_of(t, threads));
    for (int64_t d = 0; d < t->r->directions; d++) {
        t[d].scratch = scratch;
        at = lay_out(&t[d], base, at, backward, divide(t, threads).pieces);
    }
    return at;
}

/* ---- a direction ---- */

static bool check_lengths(const struct zt_direction *t, struct zt_err *err) {
    for (int64_t n = 0; t->lengths && n < t->rows; n++)
        if (t->lengths[n] < 0 || t->lengths[n] > t->r->steps)
            return zt_call_fail(t->call, err, "sequence_lens: %d at row %lld, wants 0..%lld", (int)t->lengths[n],
                                (long long)n, (long long)t->r->steps);
    return true;
}

/* Turns t to a direction of the node. */
static void turn_to(struct zt_direction *t, int64_t direction) {
    t->d = direction;
    t->back_in_time = t->r->reverse || direction == 1;
    for (int i = 0; i < t->r->cell->functions; i++)
        read_gate(&t->r->function[direction][i], (float)t->r->clip, &t->function[i]);
}

bool zt_direction_begin(struct zt_direction *t, const struct zt_recurrent *r, const struct zt_call *call,
                        struct zt_err *err) {
    *t = (struct zt_direction){ .r = r, .call = call, .kernel = kernel_of(call->node), .rows = r->rows };
    t->threads = call->threads;
    t->places = r->steps * r->rows;
    t->units = (struct zt_step_range){ 0, r->hidden };
    t->place_step = r->rows_first ? 1 : r->rows;
    t->place_row = r->rows_first ? r->steps : 1;
    t->cut = call->in_count > ZT_IN_LENGTHS && call->in[ZT_IN_LENGTHS].data;
    t->lengths = t->cut ? call->in[ZT_IN_LENGTHS].data : NULL;
    if (!check_lengths(t, err))
        return false;
    for (int64_t d = r->directions - 1; d >= 0; d--) {
        t[d] = *t;
        turn_to(&t[d], d);
    }
    return true;
}

struct steps_job {
    const struct zt_direction *t; /* the directions of the node */
    const struct zt_direction_steps *steps;
    struct division division;
    int64_t seen, last; /* floats of a piece's packed matrices, 0: pieces share them */
};

static struct zt_direction piece_of(const struct steps_job *job, const struct zt_direction *of, int64_t piece) {
    struct zt_direction t = *of;
    const int64_t rows = t.r->rows, cols = t.kernel->cols, panels = zt_ceil_div(t.r->hidden, cols);
    if (job->division.by_units) {
        t.units.first = panels * piece / job->division.pieces * cols;
        t.units.end = zt_min_int(panels * (piece + 1) / job->division.pieces * cols, t.r->hidden);
    } else {
        t.first = rows * piece / job->division.pieces;
        t.rows = rows * (piece + 1) / job->division.pieces - t.first;
    }
    return t;
}

/* Call 0 is `begin`, the last one `end`. */
static void run_call(void *arg, int64_t call, int64_t unit) {
    const struct steps_job *job = arg;
    const struct zt_direction_steps *s = job->steps;
    const struct zt_direction *of = &job->t[unit / job->division.pieces];
    const int64_t piece = unit % job->division.pieces;
    struct zt_direction t = piece_of(job, of, piece);
    const int64_t steps = t.r->steps, step = call > 0 ? (call - 1) / s->phases : -1;
    for (int turn = 0; turn < 2; turn++) {
        t.seen[turn] = of->seen[(step + turn) & 1] + piece * job->seen;
        t.last[turn] = zt_direction_at(of->last[(step + turn) & 1], piece * job->last);
    }
    if (step >= 0 && step < steps) {
        t.time = zt_direction_time(&t, s->backward ? steps - 1 - step : step);
        t.goes_on = step > 0;
        s->step(&t, (call - 1) % s->phases);
    } else if (call == 0 && s->begin) {
        s->begin(&t);
    } else if (call > 0 && s->end) {
        s->end(&t);
    }
}

static int64_t calls_of(const struct steps_job *job) {
    return 2 + job->t->r->steps * job->steps->phases;
}

/* All steps of a piece that waits for no other. */
static void run_alone(void *arg, int64_t unit) {
    for (int64_t call = 0; call < calls_of(arg); call++)
        run_call(arg, call, unit);
}

void zt_direction_run(const struct zt_direction *t, const struct zt_direction_steps *steps) {
    struct steps_job job = { .t = t, .steps = steps, .division = divide(t, t->threads) };
    const int64_t pieces = job.division.pieces, units = t->r->directions * pieces;
    if (job.division.by_units && pieces > 1) {
        zt_parallel_steps(t->threads, calls_of(&job), units, run_call, &job);
        return;
    }
    const int64_t rows = zt_ceil_div(t->r->rows, pieces);
    job.seen = step_floats(t, steps->backward, false, rows);
    job.last = t->r->cell->apart ? step_floats(t, steps->backward, true, rows) : 0;
    zt_parallel_for(t->threads, units, run_alone, &job);
}

/* Of a product: a piece of hidden units, of each gate. */
static struct zt_step_range range_of(const struct zt_direction *t) {
    return is_small(t->r) ? (struct zt_step_range){ 0, INT64_MAX } : t->units;
}

void zt_direction_step_pack(const struct zt_direction *t, const struct zt_step_product *p, struct zt_step_rows a,
                            float *to) {
    zt_step_product_pack_a(p, a, range_of(t), to);
}

void zt_direction_step_run(const struct zt_direction *t, const struct zt_step_product *p, const float *a,
                           const float *b, struct zt_step_rows y, bool add) {
    zt_step_product_run(p, a, b, y, range_of(t), add);
}

/* ---- forwards ---- */

static void clear(float *to, int64_t count) {
    if (to)
        memset(to, 0, (size_t)count * sizeof *to);
}

/* Sets t->bias to Wb + Rb, but for Rb of a last gate that is scaled by the reset; to NULL without B. */
static void sum_bias(struct zt_direction *t) {
    const int64_t wide = zt_direction_width(t->r), summed = t->r->on ? wide - t->r->cell->apart * t->r->hidden : wide;
    const float *bias = zt_direction_in(t, ZT_IN_B, 2 * wide);
    for (int64_t i = 0; bias && i < wide; i++)
        t->bias[i] = i < summed ? bias[i] + bias[wide + i] : bias[i];
    t->bias = bias ? t->bias : NULL;
}

void zt_direction_load(const struct zt_direction *t, int in, float *to) {
    const struct zt_recurrent *r = t->r;
    const float *from = zt_direction_in(t, in, r->h_direction);
    for (int64_t n = 0; to && n < r->rows; n++)
        if (from)
            memcpy(to + n * r->hidden, from + n * r->h_row, (size_t)r->hidden * sizeof *to);
        else
            clear(to + n * r->hidden, r->hidden);
}

void zt_direction_store(const struct zt_direction *t, float *to, const float *from) {
    const struct zt_recurrent *r = t->r;
    for (int64_t n = 0; to && n < r->rows; n++)
        memcpy(to + n * r->h_row, from + n * r->hidden, (size_t)r->hidden * sizeof *to);
}

/* The last state of a row without steps is 0. */
static void store_last(const struct zt_direction *t, int out, float *state) {
    for (int64_t n = 0; n < t->rows; n++)
        if (!zt_direction_runs(t, 0, n))
            clear(state + n * t->r->hidden, t->r->hidden);
    zt_direction_store(t, zt_direction_out(t, out, t->r->h_direction), state);
}

static void forward_row(struct zt_direction *t, int64_t n, zt_simd_row_function *function) {
    const struct zt_recurrent *r = t->r;
    const int64_t h = r->hidden, wide = zt_direction_width(r), place = zt_direction_place(t, t->time, n);
    const int64_t first = t->units.first, count = t->units.end - first;
    float *y = zt_direction_out(t, 0, r->y_direction);
    if (y)
        y += t->time * r->y_step + n * r->y_row;
    if (!zt_direction_runs(t, t->time, n)) {
        for (int gate = 0; gate < r->cell->gates; gate++)
            clear(t->gate + place * wide + gate * h + first, count);
        clear(zt_direction_at(t->saved, place * h + first), count);
        clear(zt_direction_at(y, first), count);
        return;
    }
    struct zt_simd_row row = { .hidden = h,
                               .first = first,
                               .end = t->units.end,
                               .function = t->function,
                               .on = r->on,
                               .peephole = r->cell->ins > ZT_IN_P ? zt_direction_in(t, ZT_IN_P, 3 * h) : NULL,
                               .gate = t->gate + place * wide,
                               .saved = zt_direction_at(t->saved, place * h),
                               .h = t->h + n * h,
                               .c = zt_direction_at(t->c, n * h),
                               .y = y ? y : t->h + n * h,
                               .product = zt_direction_at(t->product, n * h) };
    const float *bias = zt_direction_in(t, ZT_IN_B, 2 * wide);
    row.bias = bias && r->on ? bias + 2 * wide - h : NULL;
    function(&row);
}

static void forward_rows(struct zt_direction *t, zt_simd_row_function *function) {
    for (int64_t n = t->first; n < t->first + t->rows; n++)
        forward_row(t, n, function);
}

static void pack_h(struct zt_direction *t) {
    const struct zt_step_product seen = zt_direction_step_product(t, false, false);
    zt_direction_step_pack(t, &seen, zt_direction_state(t, t->h), t->seen[1]);
}

static void step(struct zt_direction *t, int64_t phase) {
    const struct zt_simd_cells *cells = zt_simd_cells();
    const struct zt_recurrent *r = t->r;
    const struct zt_step_product seen = zt_direction_step_product(t, false, false);
    const struct zt_step_product last = zt_direction_step_product(t, false, true);
    struct zt_step_rows gate = zt_direction_now(t, t->gate, zt_direction_width(r));
    if (phase == 0)
        zt_direction_step_run(t, &seen, t->seen[0], t->packed, gate, true);
    if (!r->cell->apart) {
        forward_rows(t, r->cell->ins > ZT_IN_C ? cells->lstm : cells->rnn);
    } else if (r->on) {
        zt_direction_step_run(t, &last, t->seen[0], t->packed_last, zt_direction_state(t, t->product), false);
        forward_rows(t, cells->gru_linear);
    } else if (phase == 0) {
        forward_rows(t, cells->gru_reset);
        zt_direction_step_pack(t, &last, zt_direction_now(t, t->saved, r->hidden), t->last[0]);
        return;
    } else {
        gate.at += zt_direction_width(r) - r->hidden;
        zt_direction_step_run(t, &last, t->last[0], t->packed_last, gate, true);
        forward_rows(t, cells->gru_update);
    }
    pack_h(t);
}

bool zt_recurrent_cpu_prepare(const struct zt_cell *cell, bool backward, struct zt_prepare *p, struct zt_err *err) {
    struct zt_recurrent r;
    const struct zt_node *n = p->graph->nodes[p->node];
    struct zt_direction t[2] = { { .r = &r, .kernel = kernel_of(n) } };
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    if (!zt_recurrent_read(cell, p->graph, p->node, &r, err))
        return false;
    t->cut = zt_in(p->graph, p->node, ZT_IN_LENGTHS) != NULL;
    t[1] = *t;
    p->workspace_bytes = (size_t)zt_direction_lay_out(t, NULL, backward, p->threads) * sizeof(float);
    return true;
}

/* What the steps of a direction start from. */
static void begin(struct zt_direction *t) {
    const struct zt_recurrent *r = t->r;
    float *gate = zt_direction_out(t, r->cell->outs, t->places * zt_direction_width(r));
    float *saved = zt_direction_out(t, r->cell->outs + 1, t->places * r->hidden);
    t->gate = gate ? gate : t->gate;
    t->saved = saved ? saved : t->saved;
    zt_direction_pack(t, false);
    zt_direction_load(t, ZT_IN_H, t->h);
    zt_direction_load(t, ZT_IN_C, r->cell->ins > ZT_IN_C ? t->c : NULL);
    sum_bias(t);
}

bool zt_recurrent_cpu_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err) {
    struct zt_recurrent r;
    struct zt_direction t[2];
    if (!zt_recurrent_read(cell, call->graph, zt_call_node(call), &r, err) || !zt_direction_begin(t, &r, call, err))
        return false;
    zt_direction_lay_out(t, call->workspace, false, call->threads);
    for (int64_t d = 0; d < r.directions; d++)
        begin(&t[d]);
    multiply_gates(t);
    zt_direction_run(
        t, &(struct zt_direction_steps){ .phases = cell->apart && !r.on ? 2 : 1, .begin = pack_h, .step = step });
    for (int64_t d = 0; d < r.directions; d++) {
        store_last(&t[d], 1, t[d].h);
        if (cell->outs > 2)
            store_last(&t[d], 2, t[d].c);
    }
    return true;
}
