/* h' = f(W x + Wb + R h + Rb), f = Tanh by default                                       ONNX RNN, opset 7 on
 *
 *     da = dh' f'(a)      dh = da R */
#include "ops/recurrent/recurrent.h"

static void forward_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    int64_t rows = w->r->rows, hidden = w->r->hidden, at = (s * rows + n) * hidden;
    double *a = w->gate + at, *h = w->h + at + rows * hidden;
    for (int64_t i = 0; i < hidden; i++)
        a[i] += w->product[n * hidden + i];
    zt_time_loop_gate(w, 0, hidden, a, w->slope ? w->slope + at : NULL);
    for (int64_t i = 0; i < hidden; i++)
        h[i] = a[i];
}

static void forward(struct zt_time_loop *w, int64_t s) {
    zt_time_loop_recur(w, w->h + s * w->r->rows * w->r->hidden, 0, 1);
    zt_time_loop_rows(w, s, forward_row);
}

static void backward_row(struct zt_time_loop *w, int64_t s, int64_t n) {
    int64_t hidden = w->r->hidden;
    double *da = w->slope + (s * w->r->rows + n) * hidden, *dh = w->dh + n * hidden;
    for (int64_t i = 0; i < hidden; i++) {
        da[i] *= dh[i];
        dh[i] = 0;
    }
}

static void backward(struct zt_time_loop *w, int64_t s) {
    int64_t hidden = w->r->hidden;
    zt_time_loop_rows(w, s, backward_row);
    zt_time_loop_recur_back(w, (struct zt_factor){ w->slope + s * w->r->rows * hidden, hidden, 1 }, 0, 1);
    zt_time_loop_rows(w, s, zt_time_loop_add_next);
}

static const struct zt_cell rnn_cell = { ZT_RNN_CELL, .forward = forward, .backward = backward };

static const struct zt_attr_spec rnn_old_attrs[] = { ZT_RECURRENT_ATTRS, { 0 } };
static const struct zt_attr_spec rnn_attrs[] = { ZT_RECURRENT_ATTRS, { "layout", ZT_ATTR_INT }, { 0 } };

ZT_RECURRENT_ROWS(rnn, "RNN", 6, 2, 1)
