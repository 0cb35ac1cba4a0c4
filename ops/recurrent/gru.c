/* z = f(W_z x + R_z h + b_z)      r = f(W_r x + R_r h + b_r)                             ONNX GRU, opset 7 on
 * g = g(W_g x + Wb_g + q)         q = R_g (r h) + Rb_g, or r (R_g h + Rb_g) with linear_before_reset
 * h' = (1 - z) g + z h
 *
 * Functions f, g: Sigmoid, Tanh by default; gates stand in the order z r g. Backwards, a being what enters a gate:
 *
 *     da_z = dh' (h - g) f'(a_z)      da_g = dh' (1 - z) g'(a_g)         da_r = dr f'(a_r)
 *     u = da_g R_g                    dr = u h                           dh = dh' z + [da_z da_r] R_zr + u r
 *     u = da_g r                      dr = da_g (R_g h + Rb_g)           dh = dh' z + [da_z da_r] R_zr + u R_g
 *
 * the last line with linear_before_reset. */
#include "ops/recurrent/recurrent.h"

enum { Z, R, G, GATES };
enum { FUNCTION_F, FUNCTION_G };

/* The vectors of a row at a step, H long. */
struct row {
    double *a, *slope;          /* GATES of them each */
    double *h, *h_next, *saved; /* saved: r h, or R_g h + Rb_g with linear_before_reset */
    int64_t hidden;
};

static struct row row_of(const struct zt_time_loop *w, int64_t s, int64_t n) {
    int64_t hidden = w->r->hidden, at = s * w->r->rows + n;
    return (struct row){ .a = w->gate + at * GATES * hidden,
                         .slope = w->slope ? w->slope + at * GATES * hidden : NULL,
                         .h = w->h + at * hidden,
                         .h_next = w->h + (at + w->r->rows) * hidden,
                         .saved = w->saved + at * hidden,
                         .hidden = hidden };
}

/* z and r, which stand side by side. `wide`: of a row of products. */
static void open_gates(const struct zt_time_loop *w, const struct row *r, int64_t n, int64_t wide) {
    for (int64_t i = 0; i < 2 * r->hidden; i++)
        r->a[i] += w->product[n * wide + i];
    zt_time_loop_gate(w, FUNCTION_F, 2 * r->hidden, r->a, r->slope);
}

static void close_row(const struct zt_time_loop *w, const struct row *r) {
    int64_t hidden = r->hidden;
    double *g = r->a + G * hidden;
    zt_time_loop_gate(w, FUNCTION_G, hidden, g, r->slope ? r->slope + G * hidden : NULL);
    for (int64_t i = 0; i < hidden; i++)
        r->h_next[i] = (1 - r->a[i]) * g[i] + r->a[i] * r->h[i];
}

static void linear_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    struct row r = row_of(w, s, n);
    const double *product = w->product + (n * GATES + G) * r.hidden;
    open_gates(w, &r, n, GATES * r.hidden);
    for (int64_t i = 0; i < r.hidden; i++) {
        r.saved[i] = product[i] + w->recurrent_bias[G * r.hidden + i];
        r.a[G * r.hidden + i] += r.a[R * r.hidden + i] * r.saved[i];
    }
    close_row(w, &r);
}

static void reset_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    struct row r = row_of(w, s, n);
    open_gates(w, &r, n, 2 * r.hidden);
    for (int64_t i = 0; i < r.hidden; i++)
        r.saved[i] = r.a[R * r.hidden + i] * r.h[i];
}

static void update_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    struct row r = row_of(w, s, n);
    for (int64_t i = 0; i < r.hidden; i++)
        r.a[G * r.hidden + i] += w->product[n * r.hidden + i];
    close_row(w, &r);
}

static void forward(struct zt_time_loop *w, int64_t s) {
    int64_t at = s * w->r->rows * w->r->hidden;
    if (w->r->on) {
        zt_time_loop_recur(w, w->h + at, Z, GATES);
        zt_time_loop_rows(w, s, linear_row);
        return;
    }
    zt_time_loop_recur(w, w->h + at, Z, 2);
    zt_time_loop_rows(w, s, reset_row);
    zt_time_loop_recur(w, w->saved + at, G, 1);
    zt_time_loop_rows(w, s, update_row);
}

/* da_z and da_g; with linear_before_reset u, in `apart`, and da_r too. */
static void backward_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    struct row r = row_of(w, s, n);
    const int64_t hidden = r.hidden;
    double *u = w->apart + (s * w->r->rows + n) * hidden;
    for (int64_t i = 0; i < hidden; i++) {
        const double *a = r.a + i, dh = w->dh[n * hidden + i];
        double *d = r.slope + i;
        d[Z * hidden] *= dh * (r.h[i] - a[G * hidden]);
        d[G * hidden] *= dh * (1 - a[Z * hidden]);
        if (w->r->on) {
            d[R * hidden] *= d[G * hidden] * r.saved[i];
            u[i] = d[G * hidden] * a[R * hidden];
        }
        w->dh[n * hidden + i] = dh * a[Z * hidden];
    }
}

/* `next` holds u. */
static void reset_back_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    struct row r = row_of(w, s, n);
    for (int64_t i = 0; i < r.hidden; i++) {
        double u = w->next[n * r.hidden + i];
        r.slope[R * r.hidden + i] *= u * r.h[i];
        w->dh[n * r.hidden + i] += u * r.a[R * r.hidden + i];
    }
}

static void backward(struct zt_time_loop *w, int64_t s) {
    int64_t rows = w->r->rows, hidden = w->r->hidden, wide = GATES * hidden;
    const double *d = w->slope + s * rows * wide;
    zt_time_loop_rows(w, s, backward_row);
    if (w->r->on)
        zt_time_loop_recur_back(w, (struct zt_factor){ w->apart + s * rows * hidden, hidden, 1 }, G, 1);
    else
        zt_time_loop_recur_back(w, (struct zt_factor){ d + G * hidden, wide, 1 }, G, 1);
    zt_time_loop_rows(w, s, w->r->on ? zt_time_loop_add_next : reset_back_row);
    zt_time_loop_recur_back(w, (struct zt_factor){ d, wide, 1 }, Z, 2);
    zt_time_loop_rows(w, s, zt_time_loop_add_next);
}

static void recurrent_grad(struct zt_time_loop *w) {
    int64_t hidden = w->r->hidden, wide = GATES * hidden;
    zt_time_loop_recurrent_grad(w, Z, 2, (struct zt_factor){ w->slope, wide, 1 }, w->h);
    if (w->r->on)
        zt_time_loop_recurrent_grad(w, G, 1, (struct zt_factor){ w->apart, hidden, 1 }, w->h);
    else
        zt_time_loop_recurrent_grad(w, G, 1, (struct zt_factor){ w->slope + G * hidden, wide, 1 }, w->saved);
}

static const struct zt_cell gru_cell = { ZT_GRU_CELL, .saved = 1, .forward = forward, .backward = backward,
                                         .recurrent_grad = recurrent_grad };

static const struct zt_attr_spec gru_old_attrs[] = { ZT_RECURRENT_ATTRS,
                                                     { "linear_before_reset", ZT_ATTR_INT },
                                                     { 0 } };
static const struct zt_attr_spec gru_attrs[] = {
    ZT_RECURRENT_ATTRS, { "layout", ZT_ATTR_INT }, { "linear_before_reset", ZT_ATTR_INT }, { 0 }
};

ZT_RECURRENT_ROWS(gru, "GRU", 6, 2, 2)
