/* Gradients of RNN, GRU and LSTM in float (recurrent_cpu.h): what the training form saved is read, nothing is computed
 * again. */
#include "ops/recurrent/recurrent_cpu.h"

#include "device/threads.h"
#include "ops/cpu/block_sum.h"
#include "ops/kernel/tile.h"

#include <string.h>

/* Input of the gradient node: Y, gates, saved, then the gradients of Y, Y_h, Y_c. */
static int past_own(const struct zt_direction *t, int i) {
    return t->r->cell->ins + i;
}
static int gradient_of(const struct zt_direction *t, int out) {
    return t->r->cell->ins + 1 + t->r->cell->extra + out;
}

/* Returns the address of the gradient of input i; NULL: it is not requested, or the input is omitted. */
static float *gradient(const struct zt_direction *t, int i, int64_t size) {
    return zt_direction_in(t, i, size) ? zt_direction_out(t, i, size) : NULL;
}

/* ---- what the steps saw ---- */

/* The time of the step before `time` in the order of the direction; -1: it is the row's first. */
static int64_t time_before(const struct zt_direction *t, int64_t time, int64_t n) {
    int64_t last = t->lengths ? t->lengths[n] - 1 : t->r->steps - 1;
    if (!t->back_in_time)
        return time - 1;
    return time < last ? time + 1 : -1;
}

/* h of every row before every step, and X, with zeros for rows that are over. */
static void load_row(void *arg, int64_t n) {
    const struct zt_direction *t = arg;
    const struct zt_recurrent *r = t->r;
    const float *y = zt_direction_in(t, past_own(t, 0), r->y_direction), *x = t->call->in[0].data;
    const float *start = zt_direction_in(t, ZT_IN_H, r->h_direction);
    for (int64_t time = 0; time < r->steps; time++) {
        const int64_t place = zt_direction_place(t, time, n), before = time_before(t, time, n);
        const float *h = start ? start + n * r->h_row : NULL;
        if (before >= 0)
            h = y + before * r->y_step + n * r->y_row;
        bool runs = zt_direction_runs(t, time, n);
        if (h && runs)
            memcpy(t->before_h + place * r->hidden, h, (size_t)r->hidden * sizeof *h);
        else
            memset(t->before_h + place * r->hidden, 0, (size_t)r->hidden * sizeof *h);
        if (t->lengths && runs)
            memcpy(t->x + place * r->input, x + place * r->input, (size_t)r->input * sizeof *x);
        else if (t->lengths)
            memset(t->x + place * r->input, 0, (size_t)r->input * sizeof *x);
    }
}

/* ---- a step ---- */

/* The row that is computed after row n of this step: the next one, or the first one of the next step. */
struct next_row {
    int64_t time, row;
};

static struct next_row next_row(const struct zt_direction *t, int64_t n) {
    const int64_t last = t->back_in_time ? t->r->steps - 1 : 0, step = t->back_in_time ? 1 : -1;
    if (n + 1 < t->first + t->rows)
        return (struct next_row){ t->time, n + 1 };
    return (struct next_row){ t->time == last ? last : t->time + step, t->first };
}

static void backward_row(struct zt_direction *t, int64_t n, zt_simd_row_function *function) {
    const struct zt_recurrent *r = t->r;
    const int64_t h = r->hidden, wide = zt_direction_width(r), place = zt_direction_place(t, t->time, n);
    const int64_t first = t->units.first;
    if (!zt_direction_runs(t, t->time, n)) {
        const size_t bytes = (size_t)(t->units.end - first) * sizeof *t->da;
        for (int gate = 0; gate < r->cell->gates; gate++)
            memset(t->da + place * wide + gate * h + first, 0, bytes);
        if (t->u)
            memset(t->u + place * h + first, 0, bytes);
        return;
    }
    const float *dy = zt_direction_in(t, gradient_of(t, 0), r->y_direction);
    const float *c = r->cell->ins > ZT_IN_C ? t->zero : NULL, *start = zt_direction_in(t, ZT_IN_C, r->h_direction);
    int64_t before = time_before(t, t->time, n);
    if (c && before >= 0)
        c = t->saved + zt_direction_place(t, before, n) * h;
    else if (c && start)
        c = start + n * r->h_row;
    const struct next_row next = next_row(t, n);
    struct zt_simd_row row = { .hidden = h,
                               .first = first,
                               .end = t->units.end,
                               .next = zt_direction_place(t, next.time, next.row) - place,
                               .next_y = (next.time - t->time) * r->y_step + (next.row - n) * r->y_row,
                               .function = t->function,
                               .on = r->on,
                               .peephole = r->cell->ins > ZT_IN_P ? zt_direction_in(t, ZT_IN_P, 3 * h) : NULL,
                               .gate = t->gate + place * wide,
                               .saved = zt_direction_at(t->saved, place * h),
                               .product = zt_direction_at(t->product, n * h),
                               .before_h = t->before_h + place * h,
                               .before_c = c,
                               .dy = dy ? dy + t->time * r->y_step + n * r->y_row : NULL,
                               .dh = t->h + n * h,
                               .dc = zt_direction_at(t->c, n * h),
                               .da = t->da + place * wide,
                               .u = zt_direction_at(t->u, place * h),
                               .sum = zt_direction_at(t->sum, n * wide),
                               .sum_u = zt_direction_at(t->sum_u, n * h) };
    function(&row);
}

static void backward_rows(struct zt_direction *t, zt_simd_row_function *function) {
    for (int64_t n = t->first; n < t->first + t->rows; n++)
        backward_row(t, n, function);
}

/* The end of a step, when all of da is there: dh += da R, with its last gate apart. */
static void finish_step(struct zt_direction *t) {
    const struct zt_step_product seen = zt_direction_step_product(t, true, false);
    const struct zt_step_product last = zt_direction_step_product(t, true, true);
    if (t->r->cell->apart && t->r->on)
        zt_direction_step_run(t, &last, t->last[0], t->packed_last, zt_direction_state(t, t->h), true);
    zt_direction_step_run(t, &seen, t->seen[0], t->packed, zt_direction_state(t, t->h), true);
}

static void step_back(struct zt_direction *t, int64_t phase) {
    const struct zt_simd_cells *cells = zt_simd_cells();
    const struct zt_recurrent *r = t->r;
    const struct zt_step_product seen = zt_direction_step_product(t, true, false);
    const struct zt_step_product last = zt_direction_step_product(t, true, true);
    struct zt_step_rows da = zt_direction_now(t, t->da, zt_direction_width(r));
    if (t->goes_on && phase == 0)
        finish_step(t);
    if (!r->cell->apart) {
        backward_rows(t, r->cell->ins > ZT_IN_C ? cells->lstm_back : cells->rnn_back);
    } else if (r->on) {
        backward_rows(t, cells->gru_linear_back);
        zt_direction_step_pack(t, &last, zt_direction_now(t, t->u, r->hidden), t->last[1]);
    } else if (phase == 0) {
        backward_rows(t, cells->gru_back);
        da.at += zt_direction_width(r) - r->hidden;
        zt_direction_step_pack(t, &last, da, t->last[0]);
        return;
    } else {
        zt_direction_step_run(t, &last, t->last[0], t->packed_last, zt_direction_state(t, t->product), false);
        backward_rows(t, cells->gru_reset_back);
    }
    zt_direction_step_pack(t, &seen, da, t->seen[1]);
}

/* ---- sums over all steps ---- */

/* The sums over the steps become those over the rows too, in order. */
static void give_bias(const struct zt_direction *t) {
    const struct zt_recurrent *r = t->r;
    const int64_t h = r->hidden, wide = zt_direction_width(r);
    float *to = gradient(t, ZT_IN_B, 2 * wide);
    if (!to)
        return;
    zt_sum_blocks(t->sum, wide, r->rows, t->threads);
    memcpy(to, t->sum, (size_t)wide * sizeof *to);
    memcpy(to + wide, t->sum, (size_t)wide * sizeof *to);
    if (!t->sum_u)
        return;
    zt_sum_blocks(t->sum_u, h, r->rows, t->threads);
    memcpy(to + 2 * wide - h, t->sum_u, (size_t)h * sizeof *to);
}

/* P_i and P_f meet c before the step, P_o c after it; gates stand in the order i o f. */
static void give_peephole(const struct zt_direction *t) {
    const struct zt_recurrent *r = t->r;
    const int64_t h = r->hidden, wide = zt_direction_width(r);
    float *to = r->cell->ins > ZT_IN_P ? gradient(t, ZT_IN_P, 3 * h) : NULL;
    const float *start = zt_direction_in(t, ZT_IN_C, r->h_direction);
    if (!to)
        return;
    memset(to, 0, (size_t)(3 * h) * sizeof *to);
    for (int64_t n = 0; n < t->rows; n++)
        for (int64_t time = 0; time < r->steps && zt_direction_runs(t, time, n); time++) {
            const int64_t place = zt_direction_place(t, time, n), before = time_before(t, time, n);
            const float *old = start ? start + n * r->h_row : t->zero, *da = t->da + place * wide;
            if (before >= 0)
                old = t->saved + zt_direction_place(t, before, n) * h;
            for (int64_t i = 0; i < h; i++) {
                to[i] += da[i] * old[i];
                to[h + i] += da[h + i] * t->saved[place * h + i];
                to[2 * h + i] += da[2 * h + i] * old[i];
            }
        }
}

static void give_weights(const struct zt_direction *t) {
    const struct zt_recurrent *r = t->r;
    const int64_t h = r->hidden, wide = zt_direction_width(r);
    const float *x = t->lengths ? t->x : t->call->in[0].data;
    float *dw = gradient(t, ZT_IN_W, wide * r->input), *dr = gradient(t, ZT_IN_R, wide * h);
    if (dw && dr)
        zt_direction_multiply_da(t, x, dw, t->before_h, dr);
    else if (dw)
        zt_direction_multiply(t, ZT_DIRECTION_DW, false, t->da, x, dw);
    else if (dr)
        zt_direction_multiply(t, ZT_DIRECTION_DR, false, t->da, t->before_h, dr);
    if (dr && r->cell->apart)
        zt_direction_multiply(t, ZT_DIRECTION_DR_LAST, false, r->on ? t->u : t->da + wide - h,
                              r->on ? t->before_h : t->saved, dr + (wide - h) * h);
    give_bias(t);
    give_peephole(t);
}

/* Nothing flows into the last state of a row without steps. */
static void load_last(const struct zt_direction *t, int out, float *to) {
    zt_direction_load(t, gradient_of(t, out), to);
    for (int64_t n = 0; n < t->rows; n++)
        if (!zt_direction_runs(t, 0, n))
            memset(to + n * t->r->hidden, 0, (size_t)t->r->hidden * sizeof *to);
}

static void clear_sums(struct zt_direction *t) {
    const int64_t wide = zt_direction_width(t->r);
    if (!gradient(t, ZT_IN_B, 2 * wide))
        t->sum = t->sum_u = NULL;
    if (t->sum)
        memset(t->sum, 0, (size_t)(t->rows * wide) * sizeof *t->sum);
    if (t->sum_u)
        memset(t->sum_u, 0, (size_t)(t->rows * t->r->hidden) * sizeof *t->sum_u);
}

/* What the steps of a direction start from. */
static void begin(struct zt_direction *t) {
    const struct zt_recurrent *r = t->r;
    t->gate = (float *)zt_direction_in(t, past_own(t, 1), t->places * zt_direction_width(r));
    t->saved = r->cell->extra > 1 ? (float *)zt_direction_in(t, past_own(t, 2), t->places * r->hidden) : NULL;
    memset(t->zero, 0, (size_t)r->hidden * sizeof *t->zero);
    zt_direction_pack(t, true);
    zt_parallel_for(t->threads, t->rows, load_row, t);
    load_last(t, 1, t->h);
    if (r->cell->outs > 2)
        load_last(t, 2, t->c);
    clear_sums(t);
}

/* The gradients of what the steps of a direction read. */
static void give(const struct zt_direction *t) {
    const struct zt_recurrent *r = t->r;
    zt_direction_store(t, gradient(t, ZT_IN_H, r->h_direction), t->h);
    if (r->cell->ins > ZT_IN_C)
        zt_direction_store(t, gradient(t, ZT_IN_C, r->h_direction), t->c);
    give_weights(t);
    if (t->call->out[0].data)
        zt_direction_multiply(t, ZT_DIRECTION_DX, t->d > 0, t->da,
                              zt_direction_in(t, ZT_IN_W, zt_direction_width(r) * r->input), t->call->out[0].data);
}

bool zt_recurrent_grad_cpu_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err) {
    struct zt_recurrent r;
    struct zt_direction t[2];
    if (!zt_recurrent_read(cell, call->graph, zt_call_node(call), &r, err) || !zt_direction_begin(t, &r, call, err))
        return false;
    zt_direction_lay_out(t, call->workspace, true, call->threads);
    for (int64_t d = 0; d < r.directions; d++)
        begin(&t[d]);
    const struct zt_direction_steps steps = { .backward = true,
                                              .phases = cell->apart && !r.on ? 2 : 1,
                                              .step = step_back,
                                              .end = gradient(t, ZT_IN_H, r.h_direction) ? finish_step : NULL };
    zt_direction_run(t, &steps);
    for (int64_t d = 0; d < r.directions; d++)
        give(&t[d]);
    return true;
}
