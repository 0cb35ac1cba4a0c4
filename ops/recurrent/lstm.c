/* i = f(W_i x + R_i h + P_i c + b_i)    o = f(W_o x + R_o h + P_o c' + b_o)               ONNX LSTM, opset 7 on
 * f = f(W_f x + R_f h + P_f c + b_f)    g = g(W_g x + R_g h + b_g)
 * c' = f c + i g                        h' = o k(c')
 *
 * Functions f, g, k: Sigmoid, Tanh, Tanh by default. Gates stand in the order i o f g, peepholes in the order i o f.
 * With input_forget, f = 1 - i. Backwards, a being what enters a gate:
 *
 *     da_o = dh' k(c') f'(a_o)          dc' += dh' o k'(c') + P_o da_o
 *     da_i = dc' g f'(a_i)              da_f = dc' c f'(a_f)            da_g = dc' i g'(a_g)
 *     dh = da R                         dc = dc' f + P_i da_i + P_f da_f */
#include "ops/recurrent/recurrent.h"

#include <string.h>

enum { I, O, F, G, GATES }; /* in W, R, B */
enum { FUNCTION_F, FUNCTION_G, FUNCTION_K };
enum { K, K_SLOPE, SAVED }; /* k(c') and k'(c') */

/* The vectors of a row at a step, H long. */
struct row {
    double *a, *slope; /* GATES of them each */
    double *h, *c, *h_next, *c_next, *k;
    const double *p;
    int64_t hidden;
};

static struct row row_of(const struct zt_time_loop *w, int64_t s, int64_t n) {
    int64_t hidden = w->r->hidden, at = s * w->r->rows + n, next = at + w->r->rows;
    return (struct row){ .a = w->gate + at * GATES * hidden,
                         .slope = w->slope ? w->slope + at * GATES * hidden : NULL,
                         .h = w->h + at * hidden,
                         .c = w->c + at * hidden,
                         .h_next = w->h + next * hidden,
                         .c_next = w->c + next * hidden,
                         .k = w->saved + at * SAVED * hidden,
                         .p = w->peephole,
                         .hidden = hidden };
}

static void open_gate(const struct zt_time_loop *w, const struct row *r, int gate, int function) {
    zt_time_loop_gate(w, function, r->hidden, r->a + gate * r->hidden, r->slope ? r->slope + gate * r->hidden : NULL);
}

static void couple(const struct row *r) {
    for (int64_t i = 0; i < r->hidden; i++)
        r->a[F * r->hidden + i] = 1 - r->a[I * r->hidden + i];
    if (r->slope)
        memset(r->slope + F * r->hidden, 0, (size_t)r->hidden * sizeof *r->slope);
}

static void forward_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    struct row r = row_of(w, s, n);
    const int64_t hidden = r.hidden;
    double *a = r.a;
    for (int64_t i = 0; i < GATES * hidden; i++)
        a[i] += w->product[n * GATES * hidden + i];
    for (int64_t i = 0; i < hidden; i++) {
        a[I * hidden + i] += r.p[i] * r.c[i];
        a[F * hidden + i] += r.p[2 * hidden + i] * r.c[i];
    }
    open_gate(w, &r, I, FUNCTION_F);
    if (w->r->on)
        couple(&r);
    else
        open_gate(w, &r, F, FUNCTION_F);
    open_gate(w, &r, G, FUNCTION_G);
    for (int64_t i = 0; i < hidden; i++) {
        r.c_next[i] = a[F * hidden + i] * r.c[i] + a[I * hidden + i] * a[G * hidden + i];
        a[O * hidden + i] += r.p[hidden + i] * r.c_next[i];
        r.k[i] = r.c_next[i];
    }
    open_gate(w, &r, O, FUNCTION_F);
    w->function[FUNCTION_K].run(&w->function[FUNCTION_K], hidden, r.k, r.k + K_SLOPE * hidden);
    for (int64_t i = 0; i < hidden; i++)
        r.h_next[i] = a[O * hidden + i] * r.k[i];
}

static void forward(struct zt_time_loop *w, int64_t s) {
    zt_time_loop_recur(w, w->h + s * w->r->rows * w->r->hidden, 0, GATES);
    zt_time_loop_rows(w, s, forward_row);
}

static void backward_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    struct row r = row_of(w, s, n);
    const int64_t hidden = r.hidden;
    for (int64_t i = 0; i < hidden; i++) {
        const double *a = r.a + i;
        double *d = r.slope + i, *dc = &w->dc[n * hidden + i], dh = w->dh[n * hidden + i];
        d[O * hidden] *= dh * r.k[i];
        *dc += dh * a[O * hidden] * r.k[K_SLOPE * hidden + i] + r.p[hidden + i] * d[O * hidden];
        d[I * hidden] *= *dc * (w->r->on ? a[G * hidden] - r.c[i] : a[G * hidden]);
        d[F * hidden] *= *dc * r.c[i];
        d[G * hidden] *= *dc * a[I * hidden];
        *dc = *dc * a[F * hidden] + r.p[i] * d[I * hidden] + r.p[2 * hidden + i] * d[F * hidden];
        w->dh[n * hidden + i] = 0;
    }
}

static void backward(struct zt_time_loop *w, int64_t s) {
    int64_t wide = GATES * w->r->hidden;
    zt_time_loop_rows(w, s, backward_row);
    zt_time_loop_recur_back(w, (struct zt_factor){ w->slope + s * w->r->rows * wide, wide, 1 }, 0, GATES);
    zt_time_loop_rows(w, s, zt_time_loop_add_next);
}

static const struct zt_cell lstm_cell = { ZT_LSTM_CELL, .saved = SAVED, .forward = forward, .backward = backward };

static const struct zt_attr_spec lstm_old_attrs[] = { ZT_RECURRENT_ATTRS, { "input_forget", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec lstm_attrs[] = {
    ZT_RECURRENT_ATTRS, { "input_forget", ZT_ATTR_INT }, { "layout", ZT_ATTR_INT }, { 0 }
};

ZT_RECURRENT_ROWS(lstm, "LSTM", 8, 3, 2)
