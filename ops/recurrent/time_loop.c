/* One direction of a recurrent node, forwards and back (recurrent.h). */
#include "ops/matmul/matmul.h"
#include "ops/recurrent/recurrent.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

/* The next `count` doubles of the workspace; with a workspace of NULL only counts. */
static double *take(double *base, int64_t *at, int64_t count) {
    int64_t from = *at;
    *at += count;
    return base ? base + from : NULL;
}

/* Returns how many doubles there are. Both directions use the same ones, one after the other. */
static int64_t lay_out(struct zt_time_loop *w, double *base, bool backward) {
    const struct zt_recurrent *r = w->r;
    int64_t n = r->rows, sn = r->steps * n, h = r->hidden, wide = r->cell->gates * h, at = 0;
    w->length = (int64_t *)take(base, &at, n);
    w->weight = take(base, &at, wide * r->input);
    w->recurrent = take(base, &at, wide * h);
    w->bias = take(base, &at, wide);
    w->recurrent_bias = take(base, &at, wide);
    w->peephole = take(base, &at, 3 * h);
    w->x = take(base, &at, sn * r->input);
    w->gate = take(base, &at, sn * wide);
    w->h = take(base, &at, (sn + n) * h);
    w->c = take(base, &at, (sn + n) * h);
    w->saved = take(base, &at, sn * h * r->cell->saved);
    w->product = take(base, &at, n * wide);
    if (!backward)
        return at;
    w->slope = take(base, &at, sn * wide);
    w->next = take(base, &at, n * h);
    w->dh = take(base, &at, n * h);
    w->dc = take(base, &at, n * h);
    w->apart = take(base, &at, r->cell->apart ? sn * h : 0);
    w->dx = take(base, &at, sn * r->input);
    w->dweight = take(base, &at, wide * r->input);
    w->drecurrent = take(base, &at, wide * h);
    w->dbias = take(base, &at, 2 * wide);
    w->dpeephole = take(base, &at, 3 * h);
    return at;
}

size_t zt_time_loop_bytes(const struct zt_recurrent *r, bool backward) {
    struct zt_time_loop w = { .r = r };
    return (size_t)lay_out(&w, NULL, backward) * sizeof(double);
}

static void clear(double *to, int64_t count) {
    if (count)
        memset(to, 0, (size_t)count * sizeof *to);
}

/* `count` elements of input i from `from` on; zeros where it is omitted. */
static void load(const struct zt_call *call, int i, int64_t from, int64_t count, double *to) {
    if (i < call->in_count && call->in[i].data)
        zt_load_block(call->in[i].dtype, call->in[i].data, from, 1, count, to);
    else
        clear(to, count);
}

static void store(const struct zt_call *call, int i, int64_t to, int64_t count, const double *from) {
    if (i < call->out_count && call->out[i].data)
        zt_store_block(call->out[i].dtype, call->out[i].data, to, 1, count, from);
}

/* ---- what cells are made of ---- */

/* y [m, n] = a [m, k] b [k, n] + bias */
struct sizes {
    int64_t m, n, k;
};
static void multiply(const struct zt_time_loop *w, struct sizes s, struct zt_factor a, struct zt_factor b,
                     const double *bias, double *y) {
    struct zt_product p = {
        .geometry = { .m = s.m, .n = s.n, .k = s.k, .a_row = a.row, .a_col = a.col, .b_row = b.row, .b_col = b.col },
        .dtype = ZT_DOUBLE,
        .a = a.data,
        .b = b.data,
        .c = bias,
        .c_col = 1,
        .alpha = 1,
        .beta = 1,
        .y = y,
        .threads = w->threads
    };
    zt_product_run(&p);
}

void zt_time_loop_recur(struct zt_time_loop *w, const double *in, int first, int count) {
    int64_t h = w->r->hidden;
    multiply(w, (struct sizes){ w->r->rows, count * h, h }, (struct zt_factor){ in, h, 1 },
             (struct zt_factor){ w->recurrent + first * h * h, 1, h }, NULL, w->product);
}

void zt_time_loop_recur_back(struct zt_time_loop *w, struct zt_factor d, int first, int count) {
    int64_t h = w->r->hidden;
    multiply(w, (struct sizes){ w->r->rows, h, count * h }, d, (struct zt_factor){ w->recurrent + first * h * h, h, 1 },
             NULL, w->next);
}

void zt_time_loop_add_next(struct zt_time_loop *w, int64_t s, int64_t n) {
    (void)s;
    for (int64_t i = n * w->r->hidden; i < (n + 1) * w->r->hidden; i++)
        w->dh[i] += w->next[i];
}

struct time_step {
    struct zt_time_loop *loop;
    int64_t s;
    void (*row)(struct zt_time_loop *w, int64_t s, int64_t n);
};

static void step_row(void *arg, int64_t n) {
    const struct time_step *t = arg;
    if (t->s < t->loop->length[n])
        t->row(t->loop, t->s, n);
}

void zt_time_loop_rows(struct zt_time_loop *w, int64_t s, void (*row)(struct zt_time_loop *w, int64_t s, int64_t n)) {
    struct time_step t = { w, s, row };
    double work = 30.0 * (double)w->r->rows * (double)(w->r->hidden * w->r->cell->gates);
    zt_parallel_for(zt_threads_worth(w->threads, work), w->r->rows, step_row, &t);
}

void zt_time_loop_gate(const struct zt_time_loop *w, int function, int64_t count, double *x, double *slope) {
    const struct zt_gate_function *f = &w->function[function];
    const double clip = w->r->clip;
    bool cut[ZT_ELEMENT_BLOCK];
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t block = zt_min_int(ZT_ELEMENT_BLOCK, count - at);
        for (int64_t i = 0; i < block; i++) {
            double v = x[at + i];
            cut[i] = fabs(v) > clip;
            x[at + i] = cut[i] ? copysign(clip, v) : v;
        }
        f->run(f, block, x + at, slope ? slope + at : NULL);
        for (int64_t i = 0; slope && i < block; i++)
            slope[at + i] = cut[i] ? 0 : slope[at + i];
    }
}

/* to[columns] = sums over the rows of d. */
static void sum_rows(int64_t rows, int64_t columns, struct zt_factor d, double *to) {
    clear(to, columns);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t i = 0; i < columns; i++)
            to[i] += d.data[n * d.row + i * d.col];
}

/* to[columns, width] = d^T in over all rows of all steps. */
static void transposed(const struct zt_time_loop *w, int64_t columns, int64_t width, struct zt_factor d,
                       const double *in, double *to) {
    multiply(w, (struct sizes){ columns, width, w->r->steps * w->r->rows }, (struct zt_factor){ d.data, d.col, d.row },
             (struct zt_factor){ in, width, 1 }, NULL, to);
}

void zt_time_loop_recurrent_grad(struct zt_time_loop *w, int first, int count, struct zt_factor d, const double *in) {
    int64_t h = w->r->hidden, wide = w->r->cell->gates * h;
    transposed(w, count * h, h, d, in, w->drecurrent + first * h * h);
    sum_rows(w->r->steps * w->r->rows, count * h, d, w->dbias + wide + first * h);
}

/* ---- forwards ---- */

static bool reversed(const struct zt_time_loop *w, int64_t direction) {
    return w->r->reverse || direction == 1;
}

/* The time that row n reads at step s < length[n]. */
static int64_t time_of(const struct zt_time_loop *w, int64_t direction, int64_t s, int64_t n) {
    return reversed(w, direction) ? w->length[n] - 1 - s : s;
}

static bool load_lengths(struct zt_time_loop *w, const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *given = call->in_count > 4 && call->in[4].data ? &call->in[4] : NULL;
    for (int64_t n = 0; n < w->r->rows; n++) {
        w->length[n] = given ? zt_load_int(given->dtype, given->data, n) : w->r->steps;
        if (w->length[n] < 0 || w->length[n] > w->r->steps)
            return zt_call_fail(call, err, "sequence_lens: %lld at row %lld, wants 0..%lld", (long long)w->length[n],
                                (long long)n, (long long)w->r->steps);
    }
    return true;
}

static void load_weights(struct zt_time_loop *w, const struct zt_call *call, int64_t d) {
    const struct zt_recurrent *r = w->r;
    int64_t h = r->hidden, wide = r->cell->gates * h, summed = r->on ? wide - r->cell->apart * h : wide;
    load(call, 1, d * wide * r->input, wide * r->input, w->weight);
    load(call, 2, d * wide * h, wide * h, w->recurrent);
    load(call, 3, 2 * d * wide, wide, w->bias);
    load(call, 3, (2 * d + 1) * wide, wide, w->recurrent_bias);
    for (int64_t i = 0; i < summed; i++)
        w->bias[i] += w->recurrent_bias[i];
    if (r->cell->ins > 7)
        load(call, 7, 3 * d * h, 3 * h, w->peephole);
}

static void load_sequences(struct zt_time_loop *w, const struct zt_call *call, int64_t d) {
    const struct zt_recurrent *r = w->r;
    clear(w->x, r->steps * r->rows * r->input);
    for (int64_t n = 0; n < r->rows; n++) {
        int64_t from = d * r->h_direction + n * r->h_row;
        for (int64_t s = 0; s < w->length[n]; s++)
            load(call, 0, time_of(w, d, s, n) * r->x_step + n * r->x_row, r->input,
                 w->x + (s * r->rows + n) * r->input);
        load(call, 5, from, r->hidden, w->h + n * r->hidden);
        if (r->cell->ins > 6)
            load(call, 6, from, r->hidden, w->c + n * r->hidden);
    }
}

/* Rows that are over keep their state. */
static void keep_states(struct zt_time_loop *w, int64_t s) {
    int64_t h = w->r->hidden, n = w->r->rows;
    for (int64_t at = s * n; at < (s + 1) * n; at++) {
        if (s < w->length[at - s * n])
            continue;
        memcpy(w->h + (at + n) * h, w->h + at * h, (size_t)h * sizeof *w->h);
        if (w->r->cell->ins > 6)
            memcpy(w->c + (at + n) * h, w->c + at * h, (size_t)h * sizeof *w->c);
    }
}

static void run_steps(struct zt_time_loop *w, const struct zt_call *call, int64_t d) {
    const struct zt_recurrent *r = w->r;
    int64_t sn = r->steps * r->rows, wide = r->cell->gates * r->hidden;
    w->function = r->function[d];
    load_weights(w, call, d);
    load_sequences(w, call, d);
    clear(w->saved, sn * r->hidden * r->cell->saved); /* of rows that are over, which later products still read */
    multiply(w, (struct sizes){ sn, wide, r->input }, (struct zt_factor){ w->x, r->input, 1 },
             (struct zt_factor){ w->weight, 1, r->input }, w->bias, w->gate);
    for (int64_t s = 0; s < r->steps; s++) {
        r->cell->forward(w, s);
        keep_states(w, s);
    }
}

static void store_states(const struct zt_time_loop *w, const struct zt_call *call, int64_t d) {
    const struct zt_recurrent *r = w->r;
    int64_t last = r->steps * r->rows * r->hidden;
    for (int64_t n = 0; n < r->rows; n++) {
        int64_t to = d * r->h_direction + n * r->h_row, from = last + n * r->hidden;
        for (int64_t s = 0; s < w->length[n]; s++)
            store(call, 0, time_of(w, d, s, n) * r->y_step + n * r->y_row + d * r->y_direction, r->hidden,
                  w->h + ((s + 1) * r->rows + n) * r->hidden);
        if (w->length[n] == 0)
            continue;
        store(call, 1, to, r->hidden, w->h + from);
        if (r->cell->outs > 2)
            store(call, 2, to, r->hidden, w->c + from);
    }
}

/* Writes the output `saved` of the training form, in the order of time. */
static void store_saved(const struct zt_time_loop *w, const struct zt_call *call, int64_t d) {
    const struct zt_recurrent *r = w->r;
    const int64_t h = r->hidden, wide = r->cell->gates * h, places = r->steps * r->rows;
    const double *saved = r->cell->ins > 6 ? w->c + r->rows * h : w->saved;
    for (int64_t n = 0; n < r->rows; n++)
        for (int64_t s = 0; s < w->length[n]; s++) {
            const int64_t time = time_of(w, d, s, n), from = s * r->rows + n;
            const int64_t to = d * places + (r->rows_first ? n * r->steps + time : time * r->rows + n);
            store(call, r->cell->outs, to * wide, wide, w->gate + from * wide);
            if (r->cell->extra > 1)
                store(call, r->cell->outs + 1, to * h, h, saved + from * h);
        }
}

static void clear_outputs(const struct zt_call *call) {
    for (int i = 0; i < call->out_count; i++) {
        size_t bytes = zt_dtype_bytes(call->out[i].dtype) * (size_t)zt_shape_count(&call->out[i].shape);
        if (call->out[i].data && bytes)
            memset(call->out[i].data, 0, bytes);
    }
}

bool zt_time_loop_forward(const struct zt_recurrent *r, const struct zt_call *call, struct zt_err *err) {
    struct zt_time_loop w = { .r = r, .threads = call->threads };
    lay_out(&w, call->workspace, false);
    if (!load_lengths(&w, call, err))
        return false;
    clear_outputs(call);
    for (int64_t d = 0; d < r->directions; d++) {
        run_steps(&w, call, d);
        store_states(&w, call, d);
        store_saved(&w, call, d);
    }
    return true;
}

/* ---- backwards: the gradients of Y, Y_h and Y_c stand behind the node's own inputs, its Y and what it saved ---- */

static int first_gradient(const struct zt_time_loop *w) {
    return w->r->cell->ins + 1 + w->r->cell->extra;
}

static void load_last_gradients(struct zt_time_loop *w, const struct zt_call *call, int64_t d) {
    const struct zt_recurrent *r = w->r;
    int first = first_gradient(w);
    for (int64_t n = 0; n < r->rows; n++) {
        int64_t from = d * r->h_direction + n * r->h_row, to = n * r->hidden;
        clear(w->dh + to, r->hidden);
        clear(w->dc + to, r->hidden);
        if (w->length[n] == 0)
            continue;
        load(call, first + 1, from, r->hidden, w->dh + to);
        if (r->cell->outs > 2)
            load(call, first + 2, from, r->hidden, w->dc + to);
    }
}

static void add_y_gradient(struct zt_time_loop *w, const struct zt_call *call, int64_t d, int64_t s) {
    const struct zt_recurrent *r = w->r;
    const struct zt_view *dy = call->in_count > first_gradient(w) ? &call->in[first_gradient(w)] : NULL;
    for (int64_t n = 0; dy && dy->data && n < r->rows; n++) {
        int64_t from = time_of(w, d, s, n) * r->y_step + n * r->y_row + d * r->y_direction;
        for (int64_t i = 0; s < w->length[n] && i < r->hidden; i++)
            w->dh[n * r->hidden + i] += zt_load_double(dy->dtype, dy->data, from + i);
    }
}

/* P_i and P_f meet c of the step before, P_o the new one. */
static void peephole_grad(struct zt_time_loop *w) {
    int64_t h = w->r->hidden, n = w->r->rows, wide = w->r->cell->gates * h;
    clear(w->dpeephole, 3 * h);
    for (int64_t at = 0; at < w->r->steps * n; at++)
        for (int gate = 0; gate < 3; gate++)
            for (int64_t i = 0; i < h; i++)
                w->dpeephole[gate * h + i] +=
                    w->slope[at * wide + gate * h + i] * w->c[(gate == 1 ? at + n : at) * h + i];
}

static void add_x_gradient(struct zt_time_loop *w, int64_t d) {
    const struct zt_recurrent *r = w->r;
    int64_t wide = r->cell->gates * r->hidden;
    multiply(w, (struct sizes){ r->steps * r->rows, r->input, wide }, (struct zt_factor){ w->slope, wide, 1 },
             (struct zt_factor){ w->weight, r->input, 1 }, NULL, w->x);
    for (int64_t n = 0; n < r->rows; n++)
        for (int64_t s = 0; s < w->length[n]; s++)
            for (int64_t i = 0; i < r->input; i++)
                w->dx[time_of(w, d, s, n) * r->x_step + n * r->x_row + i] += w->x[(s * r->rows + n) * r->input + i];
}

/* The gradient of an omitted input is not there either. */
static void give(const struct zt_call *call, int i, int64_t to, int64_t count, const double *from) {
    if (i < call->in_count && call->in[i].data)
        store(call, i, to, count, from);
}

static void store_gradients(struct zt_time_loop *w, const struct zt_call *call, int64_t d) {
    const struct zt_recurrent *r = w->r;
    int64_t h = r->hidden, wide = r->cell->gates * h;
    give(call, 1, d * wide * r->input, wide * r->input, w->dweight);
    give(call, 2, d * wide * h, wide * h, w->drecurrent);
    give(call, 3, 2 * d * wide, 2 * wide, w->dbias);
    for (int64_t n = 0; n < r->rows; n++) {
        int64_t to = d * r->h_direction + n * r->h_row;
        give(call, 5, to, h, w->dh + n * h);
        if (r->cell->ins > 6)
            give(call, 6, to, h, w->dc + n * h);
    }
    if (r->cell->ins > 7)
        give(call, 7, 3 * d * h, 3 * h, w->dpeephole);
}

static void run_steps_back(struct zt_time_loop *w, const struct zt_call *call, int64_t d) {
    const struct zt_recurrent *r = w->r;
    int64_t sn = r->steps * r->rows, wide = r->cell->gates * r->hidden;
    struct zt_factor da = { w->slope, wide, 1 };
    load_last_gradients(w, call, d);
    if (r->cell->apart)
        clear(w->apart, sn * r->hidden);
    for (int64_t s = r->steps - 1; s >= 0; s--) {
        add_y_gradient(w, call, d, s);
        r->cell->backward(w, s);
    }
    if (r->cell->recurrent_grad)
        r->cell->recurrent_grad(w);
    else
        zt_time_loop_recurrent_grad(w, 0, r->cell->gates, da, w->h);
    transposed(w, wide, r->input, da, w->x, w->dweight);
    sum_rows(sn, wide, da, w->dbias);
    if (r->cell->ins > 7 && call->in_count > 7 && call->in[7].data)
        peephole_grad(w);
    add_x_gradient(w, d);
}

bool zt_time_loop_backward(const struct zt_recurrent *r, const struct zt_call *call, struct zt_err *err) {
    struct zt_time_loop w = { .r = r, .threads = call->threads };
    int64_t sn = r->steps * r->rows, wide = r->cell->gates * r->hidden;
    lay_out(&w, call->workspace, true);
    if (!load_lengths(&w, call, err))
        return false;
    clear(w.dx, sn * r->input);
    for (int64_t d = 0; d < r->directions; d++) {
        clear(w.slope, sn * wide); /* rows that are over have no gradient */
        run_steps(&w, call, d);
        run_steps_back(&w, call, d);
        store_gradients(&w, call, d);
    }
    give(call, 0, 0, sn * r->input, w.dx);
    return true;
}
