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

struct zt_simd_gemm zt_direction_product(const struct zt_recurrent *r, enum zt_direction_product which) {
    const int64_t h = r->hidden, wide = zt_direction_width(r), last = r->cell->apart * h, seen = wide - last;
    const int64_t places = r->steps * r->rows, row = r->rows_first ? r->steps : 1;
    const int64_t last_row = r->on ? h : wide; /* of u, or of da_g */
    struct zt_simd_gemm g = { .count = 1, .alpha = 1, .beta = 1, .bias_col = 1, .a_col = 1, .b_col = 1 };
#define SIZES(M, N, K) g.m = (M), g.n = (N), g.k = (K)
    switch (which) {
    case ZT_DIRECTION_GATES:
        SIZES(places, wide, r->input), g.a_row = r->input, g.b_row = 1, g.b_col = r->input, g.y_row = wide;
        break;
    case ZT_DIRECTION_RECUR:
        SIZES(r->rows, seen, h), g.a_row = h, g.b_row = 1, g.b_col = h, g.y_row = row * wide, g.packed = 1;
        break;
    case ZT_DIRECTION_LAST:
        SIZES(r->rows, last, h), g.a_row = r->on ? h : row * h, g.b_row = 1, g.b_col = h;
        g.y_row = r->on ? h : row * wide, g.packed = 1;
        break;
    case ZT_DIRECTION_BACK:
        SIZES(r->rows, h, seen), g.a_row = row * wide, g.b_row = h, g.y_row = h, g.packed = 1;
        break;
    case ZT_DIRECTION_LAST_BACK:
        SIZES(r->rows, h, last), g.a_row = row * last_row, g.b_row = h, g.y_row = h, g.packed = 1;
        break;
    case ZT_DIRECTION_DX:
        SIZES(places, r->input, wide), g.a_row = wide, g.b_row = r->input, g.y_row = r->input;
        break;
    case ZT_DIRECTION_DW:
        SIZES(wide, r->input, places), g.a_row = 1, g.a_col = wide, g.b_row = r->input, g.y_row = r->input;
        break;
    case ZT_DIRECTION_DR:
        SIZES(seen, h, places), g.a_row = 1, g.a_col = wide, g.b_row = h, g.y_row = h;
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

static bool of_a_step(int which) {
    return which >= ZT_DIRECTION_RECUR && which <= ZT_DIRECTION_LAST_BACK;
}

void zt_direction_multiply(const struct zt_direction *t, enum zt_direction_product which, bool add, const float *a,
                           const float *b, float *y) {
    struct zt_simd_gemm g = zt_direction_product(t->r, which);
    g.add = add;
    if (of_a_step(which))
        g.m = t->rows;
    const float *bias = which == ZT_DIRECTION_GATES ? t->bias : NULL;
    zt_simd_gemm_run(t->kernel, &g, &(struct zt_simd_gemm_operands){ a, b, bias, y }, t->scratch, t->threads);
}

void zt_direction_pack(struct zt_direction *t, bool transposed) {
    const int64_t h = t->r->hidden;
    const float *recurrent = zt_direction_in(t, ZT_IN_R, zt_direction_width(t->r) * h);
    struct zt_simd_gemm g = zt_direction_product(t->r, transposed ? ZT_DIRECTION_RECUR : ZT_DIRECTION_BACK);
    zt_simd_gemm_pack(t->kernel, &g, recurrent, t->packed, t->threads);
    if (!t->r->cell->apart)
        return;
    g = zt_direction_product(t->r, transposed ? ZT_DIRECTION_LAST : ZT_DIRECTION_LAST_BACK);
    recurrent += (zt_direction_width(t->r) - h) * h;
    zt_simd_gemm_pack(t->kernel, &g, recurrent, t->packed_last, t->threads);
}

/* ---- memory ---- */

static float *take(float *base, int64_t *at, int64_t count) {
    int64_t from = *at;
    *at += (count + 15) / 16 * 16;
    return base && count ? base + from : NULL;
}

/* Floats that any product needs on so many threads; any of a step, which have little of it. */
static int64_t scratch_of(const struct zt_direction *t, int threads, bool step) {
    int64_t most = 0;
    for (int i = 0; i < ZT_DIRECTION_PRODUCTS; i++) {
        struct zt_simd_gemm g = zt_direction_product(t->r, (enum zt_direction_product)i);
        if (g.m && (!step || of_a_step(i)))
            most = zt_max_int(most, (int64_t)zt_simd_gemm_bytes(t->kernel, &g, threads));
    }
    return zt_ceil_div(most, 64) * 16;
}

/* GRU and LSTM have a second state or product, and all use the memory of both directions one after the other. */
int64_t zt_direction_lay_out(struct zt_direction *t, float *base, bool backward, int threads) {
    const struct zt_recurrent *r = t->r;
    const int64_t h = r->hidden, wide = zt_direction_width(r), nh = r->rows * h, places = r->steps * r->rows;
    struct zt_simd_gemm seen = zt_direction_product(r, backward ? ZT_DIRECTION_BACK : ZT_DIRECTION_RECUR);
    struct zt_simd_gemm last = zt_direction_product(r, backward ? ZT_DIRECTION_LAST_BACK : ZT_DIRECTION_LAST);
    int64_t at = 0;
    t->packed = take(base, &at, zt_simd_gemm_packed(t->kernel, &seen));
    t->packed_last = take(base, &at, r->cell->apart ? zt_simd_gemm_packed(t->kernel, &last) : 0);
    t->h = take(base, &at, nh);
    t->c = take(base, &at, r->cell->ins > ZT_IN_C ? nh : 0);
    t->product = take(base, &at, r->cell->apart ? nh : 0);
    t->scratch = take(base, &at, zt_max_int(scratch_of(t, threads, false), threads * scratch_of(t, 1, true)));
    if (backward) {
        t->da = take(base, &at, places * wide);
        t->u = take(base, &at, r->cell->apart && r->on ? places * h : 0);
        t->before_h = take(base, &at, places * h);
        t->x = take(base, &at, t->cut ? places * r->input : 0);
        t->zero = take(base, &at, h);
        t->part = take(base, &at, ZT_DIRECTION_PARTS * wide);
    } else {
        t->bias = take(base, &at, wide);
        t->gate = take(base, &at, places * wide);
        t->saved = take(base, &at, r->cell->apart ? places * h : 0);
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

bool zt_direction_begin(struct zt_direction *t, const struct zt_recurrent *r, const struct zt_call *call,
                        struct zt_err *err) {
    *t = (struct zt_direction){ .r = r, .call = call, .kernel = kernel_of(call->node), .rows = r->rows };
    t->threads = call->threads;
    t->places = r->steps * r->rows;
    t->place_step = r->rows_first ? 1 : r->rows;
    t->place_row = r->rows_first ? r->steps : 1;
    t->cut = call->in_count > ZT_IN_LENGTHS && call->in[ZT_IN_LENGTHS].data;
    t->lengths = t->cut ? call->in[ZT_IN_LENGTHS].data : NULL;
    return check_lengths(t, err);
}

void zt_direction_to(struct zt_direction *t, int64_t direction) {
    t->d = direction;
    t->back_in_time = t->r->reverse || direction == 1;
    for (int i = 0; i < t->r->cell->functions; i++)
        read_gate(&t->r->function[direction][i], (float)t->r->clip, &t->function[i]);
}

struct rows_job {
    struct zt_direction *t;
    void (*row)(struct zt_direction *t, int64_t n);
    int64_t block;
};

static void rows_block(void *arg, int64_t block) {
    const struct rows_job *job = arg;
    int64_t end = zt_min_int((block + 1) * job->block, job->t->rows);
    for (int64_t n = block * job->block; n < end; n++)
        job->row(job->t, job->t->first + n);
}

void zt_direction_rows(struct zt_direction *t, void (*row)(struct zt_direction *t, int64_t n)) {
    enum { BLOCK = 1 << 12 }; /* values of gates, some microseconds of work */
    struct rows_job job = { t, row, zt_max_int(1, BLOCK / zt_direction_width(t->r)) };
    zt_parallel_for(t->threads, (t->rows + job.block - 1) / job.block, rows_block, &job);
}

struct steps_job {
    const struct zt_direction *t;
    void (*step)(struct zt_direction *t);
    bool last_first;
    int64_t pieces, scratch; /* of the rows; floats of a piece */
};

static void steps_piece(void *arg, int64_t piece) {
    const struct steps_job *job = arg;
    struct zt_direction t = *job->t;
    const int64_t steps = t.r->steps;
    t.first = t.r->rows * piece / job->pieces;
    t.rows = t.r->rows * (piece + 1) / job->pieces - t.first;
    t.threads = job->pieces > 1 ? 1 : t.threads;
    t.scratch += piece * job->scratch;
    for (int64_t s = 0; s < steps; s++) {
        t.time = zt_direction_time(&t, job->last_first ? steps - 1 - s : s);
        job->step(&t);
    }
}

void zt_direction_steps(struct zt_direction *t, bool last_first, void (*step)(struct zt_direction *t)) {
    enum { CACHED = 1 << 16, LEAST = 4 }; /* floats of R, a quarter of the second cache; rows of a piece */
    const struct zt_recurrent *r = t->r;
    struct steps_job job = { .t = t, .step = step, .last_first = last_first, .pieces = 1 };
    if (zt_direction_width(r) * r->hidden <= CACHED && r->rows >= LEAST * 2)
        job.pieces = zt_max_int(1, zt_min_int(t->threads, r->rows / LEAST));
    job.scratch = scratch_of(t, 1, true);
    zt_parallel_for((int)job.pieces, job.pieces, steps_piece, &job);
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

static void forward_row(struct zt_direction *t, int64_t n) {
    const struct zt_recurrent *r = t->r;
    const int64_t h = r->hidden, wide = zt_direction_width(r), place = zt_direction_place(t, t->time, n);
    float *y = zt_direction_out(t, 0, r->y_direction);
    if (y)
        y += t->time * r->y_step + n * r->y_row;
    if (!zt_direction_runs(t, t->time, n)) {
        clear(t->gate + place * wide, wide);
        clear(zt_direction_at(t->saved, place * h), h);
        clear(y, h);
        return;
    }
    struct zt_simd_row row = { .hidden = h,
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
    t->row_function(&row);
}

static void forward_rows(struct zt_direction *t, zt_simd_row_function *function) {
    t->row_function = function;
    zt_direction_rows(t, forward_row);
}

static void step(struct zt_direction *t) {
    const struct zt_simd_cells *cells = zt_simd_cells();
    const struct zt_recurrent *r = t->r;
    const int64_t first = zt_direction_place(t, t->time, t->first), wide = zt_direction_width(r),
                  row = t->first * r->hidden;
    float *gate = t->gate + first * wide;
    zt_direction_multiply(t, ZT_DIRECTION_RECUR, true, t->h + row, t->packed, gate);
    if (!r->cell->apart) {
        forward_rows(t, r->cell->ins > ZT_IN_C ? cells->lstm : cells->rnn);
    } else if (r->on) {
        zt_direction_multiply(t, ZT_DIRECTION_LAST, false, t->h + row, t->packed_last, t->product + row);
        forward_rows(t, cells->gru_linear);
    } else {
        forward_rows(t, cells->gru_reset);
        zt_direction_multiply(t, ZT_DIRECTION_LAST, true, t->saved + first * r->hidden, t->packed_last,
                              gate + wide - r->hidden);
        forward_rows(t, cells->gru_update);
    }
}

bool zt_recurrent_cpu_prepare(const struct zt_cell *cell, bool backward, struct zt_prepare *p, struct zt_err *err) {
    struct zt_recurrent r;
    const struct zt_node *n = p->graph->nodes[p->node];
    struct zt_direction t = { .r = &r, .kernel = kernel_of(n) };
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    if (!zt_recurrent_read(cell, p->graph, p->node, &r, err))
        return false;
    t.cut = zt_in(p->graph, p->node, ZT_IN_LENGTHS) != NULL;
    p->workspace_bytes = (size_t)zt_direction_lay_out(&t, NULL, backward, p->threads) * sizeof(float);
    return true;
}

bool zt_recurrent_cpu_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err) {
    struct zt_recurrent r;
    struct zt_direction t;
    if (!zt_recurrent_read(cell, call->graph, zt_call_node(call), &r, err) || !zt_direction_begin(&t, &r, call, err))
        return false;
    const int64_t wide = zt_direction_width(&r);
    zt_direction_lay_out(&t, call->workspace, false, call->threads);
    for (int64_t d = 0; d < r.directions; d++) {
        zt_direction_to(&t, d);
        float *gate = zt_direction_out(&t, cell->outs, t.places * wide);
        float *saved = zt_direction_out(&t, cell->outs + 1, t.places * r.hidden);
        t.gate = gate ? gate : t.gate;
        t.saved = saved ? saved : t.saved;
        zt_direction_pack(&t, true);
        zt_direction_load(&t, ZT_IN_H, t.h);
        zt_direction_load(&t, ZT_IN_C, cell->ins > ZT_IN_C ? t.c : NULL);
        sum_bias(&t);
        zt_direction_multiply(&t, ZT_DIRECTION_GATES, false, call->in[0].data,
                              zt_direction_in(&t, ZT_IN_W, wide * r.input), t.gate);
        zt_direction_steps(&t, false, step);
        store_last(&t, 1, t.h);
        if (cell->outs > 2)
            store_last(&t, 2, t.c);
    }
    return true;
}
