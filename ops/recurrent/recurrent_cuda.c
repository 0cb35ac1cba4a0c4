/* RNN, LSTM, GRU and their gradients on CUDA, with the formulas of recurrent_cpu.h: cuBLASLt computes one product over
 * all steps for the inputs and one a step for the state; a gate kernel follows each. sequence_lens is read on the
 * device, which cannot report an error: a length beyond the last step counts as all steps. cuDNN's graph API has no
 * recurrent operation. Its older calls have no peepholes, and the size of what they save is known on the device alone,
 * so the memory plan could not hold it.
 *
 * Functions Sigmoid, Tanh and Relu, whose slopes follow from their values; fp32. */
#include "base/align.h"
#include "ops/cuda/blas_cuda.h"
#include "ops/cuda/describe.h"
#include "ops/recurrent/launch_recurrent.h"
#include "ops/reduce/launch_reduce.h"
#include "ops/cuda/launch.h"
#include "ops/recurrent/recurrent.h"

#include <stdlib.h>

/* Matrix products of a direction, by result. R_g and u belong to a GRU's last gate. */
enum product {
    GATES,     /* all steps: X W^T + bias */
    RECUR,     /* a step: gates that see h += h R^T */
    LAST,      /* a step: product = h R_g^T; saved R_g^T is added to gate g where the product follows the reset */
    BACK,      /* a step: dh += da R */
    LAST_BACK, /* a step: dh += u R_g, or product = da_g R_g */
    DX,        /* all steps: da W */
    DW,        /* da^T X */
    DR,        /* da^T h */
    DR_LAST,   /* u^T h or da_g^T saved */
    PRODUCTS
};

struct recurrent {
    struct zt_recurrent r;
    int64_t wide, seen, places; /* gates hidden; of them those that see h; steps rows */
    struct zt_blas *product[PRODUCTS];
    /* offsets into the workspace, in floats */
    int64_t h, c, product_at, bias, gate, saved, da, u, before_h, x, scratch;
};

enum { IN_W = 1, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };

static void release(void *state) {
    struct recurrent *s = state;
    for (int i = 0; s && i < PRODUCTS; i++)
        zt_blas_destroy(s->product[i]);
    free(s);
}

/* ---- preparing ---- */

static struct zt_blas_matrix plain(int64_t rows, int64_t columns, int64_t row_step) {
    return (struct zt_blas_matrix){ .dtype = ZT_FLOAT, .rows = rows, .columns = columns, .row_step = row_step };
}
static struct zt_blas_matrix transposed(int64_t rows, int64_t columns, int64_t row_step) {
    struct zt_blas_matrix m = plain(rows, columns, row_step);
    m.transposed = true;
    return m;
}

static struct zt_blas_spec spec_of(const struct recurrent *s, enum product which) {
    const struct zt_recurrent *r = &s->r;
    const int64_t n = r->rows, h = r->hidden, wide = s->wide, seen = s->seen, places = s->places;
    const int64_t row = r->rows_first ? r->steps : 1, last = r->on ? h : wide; /* of u, or of da_g */
    switch (which) {
    case GATES:
        return (struct zt_blas_spec){ plain(places, r->input, r->input), transposed(wide, r->input, r->input),
                                      plain(places, wide, wide), .bias = true };
    case RECUR:
        return (struct zt_blas_spec){ plain(n, h, h), transposed(seen, h, h), plain(n, seen, row * wide) };
    case LAST:
        return (struct zt_blas_spec){ plain(n, h, r->on ? h : row * h), transposed(h, h, h),
                                      plain(n, h, r->on ? h : row * wide) };
    case BACK:
        return (struct zt_blas_spec){ plain(n, seen, row * wide), plain(seen, h, h), plain(n, h, h) };
    case LAST_BACK:
        return (struct zt_blas_spec){ plain(n, h, row * last), plain(h, h, h), plain(n, h, h) };
    case DX:
        return (struct zt_blas_spec){ plain(places, wide, wide), plain(wide, r->input, r->input),
                                      plain(places, r->input, r->input) };
    case DW:
        return (struct zt_blas_spec){ transposed(places, wide, wide), plain(places, r->input, r->input),
                                      plain(wide, r->input, r->input) };
    case DR:
        return (struct zt_blas_spec){ transposed(places, seen, wide), plain(places, h, h), plain(seen, h, h) };
    default: /* DR_LAST */
        return (struct zt_blas_spec){ transposed(places, h, last), plain(places, h, h), plain(h, h, h) };
    }
}

static bool make_products(struct zt_prepare *p, struct recurrent *s, bool backward, struct zt_err *err) {
    for (int i = backward ? BACK : GATES; i < (backward ? PRODUCTS : BACK); i++) {
        struct zt_blas_spec spec = spec_of(s, (enum product)i);
        if ((i == LAST || i == LAST_BACK || i == DR_LAST) && !s->r.cell->apart)
            continue;
        spec.batch = 1;
        spec.tf32 = p->device->tf32;
        s->product[i] = zt_blas_create(p->device, &spec, err);
        if (!s->product[i])
            return zt_err_within(err, 0, "%s (%s)", p->graph->nodes[p->node]->name, p->graph->nodes[p->node]->op_type);
        size_t bytes = (size_t)s->scratch * sizeof(float) + zt_blas_workspace_bytes(s->product[i]);
        p->workspace_bytes = bytes > p->workspace_bytes ? bytes : p->workspace_bytes;
    }
    return true;
}

static int64_t take(struct recurrent *s, int64_t count) {
    int64_t at = s->scratch;
    s->scratch += zt_align_64(count);
    return at;
}

static bool has_c(const struct zt_recurrent *r) {
    return r->cell->ins > IN_C;
}

/* Whether the node has the output. */
static bool is_given(const struct zt_prepare *p, int output) {
    return zt_out(p->graph, p->node, output) != NULL;
}

/* Both directions use one workspace in turn. LSTM alone has a cell state; GRU alone has a product of the last gate and
 * its saved values. */
static void lay_out(struct recurrent *s, const struct zt_prepare *p, bool backward) {
    const struct zt_recurrent *r = &s->r;
    const int64_t nh = r->rows * r->hidden, gates = s->places * s->wide, units = s->places * r->hidden;
    const bool apart = r->cell->apart, lengths = zt_in(p->graph, p->node, IN_LENGTHS) != NULL;
    s->h = take(s, nh);
    s->c = take(s, has_c(r) ? nh : 0);
    s->product_at = take(s, apart && r->on != backward ? nh : 0);
    s->bias = take(s, backward ? 0 : s->wide);
    s->gate = take(s, backward || is_given(p, r->cell->outs) ? 0 : gates);
    s->saved = take(s, backward || !apart || is_given(p, r->cell->outs + 1) ? 0 : units);
    s->da = take(s, backward ? gates : 0);
    s->u = take(s, backward && apart && r->on ? units : 0);
    s->before_h = take(s, backward ? units : 0);
    s->x = take(s, backward && lengths && is_given(p, IN_W) ? s->places * r->input : 0);
}

static bool prepare(struct zt_prepare *p, const struct zt_cell *cell, bool backward, struct zt_err *err) {
    struct recurrent *s = zt_calloc(1, sizeof *s);
    bool made = zt_recurrent_read(cell, p->graph, p->node, &s->r, err);
    if (made) {
        s->wide = cell->gates * s->r.hidden;
        s->seen = s->wide - cell->apart * s->r.hidden;
        s->places = s->r.steps * s->r.rows;
        lay_out(s, p, backward);
        made = make_products(p, s, backward, err);
    }
    if (made)
        p->state = s;
    else
        release(s);
    return made;
}

/* ---- one direction of a call ---- */

struct direction {
    const struct zt_call *call;
    const struct recurrent *s;
    struct CUstream_st *stream;
    int64_t d;
    float *room;
    struct zt_launch_direction l;
};

/* Input or output i of the direction, `size` floats each; NULL where it is omitted. */
static float *view_of(const struct zt_view *views, int count, int i, int64_t offset) {
    return i < count && views[i].data ? (float *)views[i].data + offset : NULL;
}
static const float *in(const struct direction *t, int i, int64_t size) {
    return view_of(t->call->in, t->call->in_count, i, t->d * size);
}
static float *out(const struct direction *t, int i, int64_t size) {
    return view_of(t->call->out, t->call->out_count, i, t->d * size);
}
/* Returns the address of the gradient of input i; NULL: it is not requested, or the input is omitted. */
static float *gradient(const struct direction *t, int i, int64_t size) {
    return in(t, i, size) ? out(t, i, size) : NULL;
}

static bool good(const struct direction *t, int code, struct zt_err *err) {
    return zt_launched(t->call, code, err);
}

/* y = a b + bias, or y += a b where beta is 1. */
static bool multiply(const struct direction *t, enum product which, const struct zt_blas_data *data,
                     struct zt_err *err) {
    struct zt_blas_data scaled = *data;
    scaled.alpha = 1;
    return zt_blas_run(t->s->product[which], &scaled, t->room + t->s->scratch, t->call->node->name, err);
}

static void begin(struct direction *t, const struct zt_call *call, int64_t direction) {
    static const int kinds[] = {
        [ZT_GATE_SIGMOID] = ZT_LAUNCH_SIGMOID, [ZT_GATE_TANH] = ZT_LAUNCH_TANH, [ZT_GATE_RELU] = ZT_LAUNCH_RELU
    };
    const struct recurrent *s = call->state;
    const struct zt_recurrent *r = &s->r;
    *t = (struct direction){
        .call = call, .s = s, .stream = zt_stream_of(call), .d = direction, .room = call->workspace
    };
    t->l = (struct zt_launch_direction){ .rows = r->rows,
                                         .steps = r->steps,
                                         .hidden = r->hidden,
                                         .gates = r->cell->gates,
                                         .place_step = r->rows_first ? 1 : r->rows,
                                         .place_row = r->rows_first ? r->steps : 1,
                                         .y_step = r->y_step,
                                         .y_row = r->y_row,
                                         .h_row = r->h_row,
                                         .back_in_time = r->reverse || direction == 1,
                                         .on = r->on,
                                         .clip = (float)r->clip,
                                         .h = t->room + s->h,
                                         .c = has_c(r) ? t->room + s->c : NULL,
                                         .product = t->room + s->product_at };
    for (int i = 0; i < r->cell->functions; i++)
        t->l.function[i] = kinds[zt_gate_plain(&r->function[direction][i])];
    if (call->in_count > IN_LENGTHS)
        t->l.lengths = call->in[IN_LENGTHS].data;
    if (r->cell->ins > IN_P)
        t->l.peephole = in(t, IN_P, 3 * r->hidden);
}

/* Places of the step's first row, and R's rows of the last gate. */
static int64_t first_place(const struct direction *t) {
    return t->l.time * t->l.place_step;
}
static const float *last_weight(const struct direction *t) {
    return in(t, IN_R, t->s->wide * t->s->r.hidden) + t->s->seen * t->s->r.hidden;
}

/* ---- forward ---- */

static bool cells(const struct direction *t, enum zt_launch_cell cell, struct zt_err *err) {
    return good(t, zt_launch_direction_step(t->stream, &t->l, cell), err);
}

static bool step(const struct direction *t, struct zt_err *err) {
    const struct recurrent *s = t->s;
    const int64_t h = s->r.hidden;
    float *gate = t->l.gate + first_place(t) * s->wide, *product = t->room + s->product_at;
    if (!multiply(t, RECUR, &(struct zt_blas_data){ .a = t->l.h, .b = in(t, IN_R, s->wide * h), .y = gate, .beta = 1 },
                  err))
        return false;
    if (!s->r.cell->apart)
        return cells(t, has_c(&s->r) ? ZT_LAUNCH_LSTM : ZT_LAUNCH_RNN, err);
    if (s->r.on)
        return multiply(t, LAST, &(struct zt_blas_data){ .a = t->l.h, .b = last_weight(t), .y = product }, err) &&
               cells(t, ZT_LAUNCH_GRU_LINEAR, err);
    return cells(t, ZT_LAUNCH_GRU_RESET, err) &&
           multiply(t, LAST,
                    &(struct zt_blas_data){
                        .a = t->l.saved + first_place(t) * h, .b = last_weight(t), .y = gate + s->seen, .beta = 1 },
                    err) &&
           cells(t, ZT_LAUNCH_GRU_UPDATE, err);
}

/* The first states of the time loop, and W x + bias of all steps. */
static bool open_direction(struct direction *t, struct zt_err *err) {
    const struct recurrent *s = t->s;
    const struct zt_recurrent *r = &s->r;
    const float *both = in(t, IN_B, 2 * s->wide);
    float *bias = t->room + s->bias, *gate = out(t, r->cell->outs, s->places * s->wide), *saved = NULL;
    if (r->cell->extra > 1)
        saved = out(t, r->cell->outs + 1, s->places * r->hidden);
    t->l.gate = gate ? gate : t->room + s->gate;
    t->l.saved = saved ? saved : r->cell->apart ? t->room + s->saved : NULL;
    t->l.y = out(t, 0, r->y_direction);
    t->l.bias = both && r->on ? both + 2 * s->wide - r->hidden : NULL;
    return good(t, zt_launch_direction_bias(t->stream, both, s->wide, r->on ? s->seen : s->wide, bias), err) &&
           good(t, zt_launch_direction_load(t->stream, &t->l, in(t, IN_H, r->h_direction), false, t->l.h), err) &&
           (!has_c(r) ||
            good(t, zt_launch_direction_load(t->stream, &t->l, in(t, IN_C, r->h_direction), false, t->l.c), err)) &&
           multiply(t, GATES,
                    &(struct zt_blas_data){
                        .a = t->call->in[0].data, .b = in(t, IN_W, s->wide * r->input), .bias = bias, .y = t->l.gate },
                    err);
}

static bool store(const struct direction *t, float *to, const float *from, bool last, struct zt_err *err) {
    return !to || good(t, zt_launch_direction_store(t->stream, &t->l, from, last, to), err);
}

static bool forward_direction(struct direction *t, struct zt_err *err) {
    const struct zt_recurrent *r = &t->s->r;
    if (!open_direction(t, err))
        return false;
    for (int64_t s = 0; s < r->steps; s++) {
        t->l.time = t->l.back_in_time ? r->steps - 1 - s : s;
        if (!step(t, err))
            return false;
    }
    return store(t, out(t, 1, r->h_direction), t->l.h, true, err) &&
           (r->cell->outs <= 2 || store(t, out(t, 2, r->h_direction), t->l.c, true, err));
}

/* ---- backward: the inputs of the node, its Y, gates and saved values, then the gradients of Y, Y_h, Y_c ---- */

static bool cells_back(const struct direction *t, enum zt_launch_cell cell, struct zt_err *err) {
    return good(t, zt_launch_direction_step_back(t->stream, &t->l, cell), err);
}

static bool step_back(const struct direction *t, struct zt_err *err) {
    const struct recurrent *s = t->s;
    const int64_t h = s->r.hidden;
    float *da = t->l.da + first_place(t) * s->wide, *product = t->room + s->product_at;
    bool done;
    if (!s->r.cell->apart)
        done = cells_back(t, has_c(&s->r) ? ZT_LAUNCH_LSTM : ZT_LAUNCH_RNN, err);
    else if (s->r.on)
        done = cells_back(t, ZT_LAUNCH_GRU_LINEAR, err) &&
               multiply(t, LAST_BACK,
                        &(struct zt_blas_data){
                            .a = t->l.u + first_place(t) * h, .b = last_weight(t), .y = t->l.h, .beta = 1 },
                        err);
    else
        done = cells_back(t, ZT_LAUNCH_GRU_RESET, err) &&
               multiply(t, LAST_BACK, &(struct zt_blas_data){ .a = da + s->seen, .b = last_weight(t), .y = product },
                        err) &&
               cells_back(t, ZT_LAUNCH_GRU_UPDATE, err);
    return done &&
           multiply(t, BACK, &(struct zt_blas_data){ .a = da, .b = in(t, IN_R, s->wide * h), .y = t->l.h, .beta = 1 },
                    err);
}

static bool open_back(struct direction *t, struct zt_err *err) {
    const struct recurrent *s = t->s;
    const struct zt_recurrent *r = &s->r;
    const int past = r->cell->ins, first = past + 1 + r->cell->extra;
    t->l.gate = (float *)in(t, past + 1, s->places * s->wide);
    t->l.saved = r->cell->extra > 1 ? (float *)in(t, past + 2, s->places * r->hidden) : NULL;
    t->l.dy = in(t, first, r->y_direction);
    t->l.start_c = has_c(r) ? in(t, IN_C, r->h_direction) : NULL;
    t->l.da = t->room + s->da;
    t->l.u = r->cell->apart && r->on ? t->room + s->u : NULL;
    t->l.before_h = t->room + s->before_h;
    return good(t,
                zt_launch_direction_before(t->stream, &t->l, in(t, past, r->y_direction), in(t, IN_H, r->h_direction)),
                err) &&
           good(t, zt_launch_direction_load(t->stream, &t->l, in(t, first + 1, r->h_direction), true, t->l.h), err) &&
           (r->cell->outs <= 2 ||
            good(t, zt_launch_direction_load(t->stream, &t->l, in(t, first + 2, r->h_direction), true, t->l.c), err));
}

static bool give_bias(const struct direction *t, struct zt_err *err) {
    const struct recurrent *s = t->s;
    const int64_t h = s->r.hidden;
    const struct zt_launch_sum all = { 1, s->places, s->wide }, last = { 1, s->places, h };
    float *to = gradient(t, IN_B, 2 * s->wide);
    if (!to)
        return true;
    return good(t, zt_launch_sum(t->stream, ZT_FLOAT, &all, t->l.da, to, false), err) &&
           t->call->device->api->copy(t->call->device, to + s->wide, to, (size_t)s->wide * sizeof *to, err) &&
           (!t->l.u || good(t, zt_launch_sum(t->stream, ZT_FLOAT, &last, t->l.u, to + 2 * s->wide - h, false), err));
}

static bool give_weights(const struct direction *t, struct zt_err *err) {
    const struct recurrent *s = t->s;
    const struct zt_recurrent *r = &s->r;
    float *dw = gradient(t, IN_W, s->wide * r->input), *dr = gradient(t, IN_R, s->wide * r->hidden);
    const float *x = t->call->in[0].data, *last = r->on ? t->l.u : t->l.da + s->seen;
    if (t->l.lengths && dw) {
        float *masked = t->room + s->x;
        if (!good(t, zt_launch_direction_masked(t->stream, &t->l, r->input, x, masked), err))
            return false;
        x = masked;
    }
    return (!dw || multiply(t, DW, &(struct zt_blas_data){ .a = t->l.da, .b = x, .y = dw }, err)) &&
           (!dr || multiply(t, DR, &(struct zt_blas_data){ .a = t->l.da, .b = t->l.before_h, .y = dr }, err)) &&
           (!dr || !r->cell->apart ||
            multiply(t, DR_LAST,
                     &(struct zt_blas_data){
                         .a = last, .b = r->on ? t->l.before_h : t->l.saved, .y = dr + s->seen * r->hidden },
                     err));
}

static bool give_peephole(const struct direction *t, struct zt_err *err) {
    float *to = t->s->r.cell->ins > IN_P ? gradient(t, IN_P, 3 * t->s->r.hidden) : NULL;
    return !to || good(t, zt_launch_direction_peephole_grad(t->stream, &t->l, to), err);
}

static bool backward_direction(struct direction *t, struct zt_err *err) {
    const struct recurrent *s = t->s;
    const struct zt_recurrent *r = &s->r;
    float *dx = t->call->out[0].data;
    if (!open_back(t, err))
        return false;
    for (int64_t i = r->steps - 1; i >= 0; i--) {
        t->l.time = t->l.back_in_time ? r->steps - 1 - i : i;
        if (!step_back(t, err))
            return false;
    }
    return store(t, gradient(t, IN_H, r->h_direction), t->l.h, false, err) &&
           (!has_c(r) || store(t, gradient(t, IN_C, r->h_direction), t->l.c, false, err)) && give_weights(t, err) &&
           give_bias(t, err) && give_peephole(t, err) &&
           (!dx || multiply(t, DX,
                            &(struct zt_blas_data){
                                .a = t->l.da, .b = in(t, IN_W, s->wide * r->input), .y = dx, .beta = t->d > 0 ? 1 : 0 },
                            err));
}

/* ---- kernels ---- */

static bool run(const struct zt_call *call, bool (*compute)(struct direction *t, struct zt_err *err),
                struct zt_err *err) {
    const struct recurrent *s = call->state;
    for (int64_t d = 0; d < s->r.directions; d++) {
        struct direction t;
        begin(&t, call, d);
        if (!compute(&t, err))
            return false;
    }
    return true;
}

static bool forward(const struct zt_call *call, struct zt_err *err) {
    return run(call, forward_direction, err);
}
static bool backward(const struct zt_call *call, struct zt_err *err) {
    return run(call, backward_direction, err);
}

/* A macro because it defines functions and kernels whose names contain the id. */
#define KERNELS(id, CELL)                                                                                              \
    static const struct zt_cell id##_cell = { CELL };                                                                  \
    static bool id##_prepare(struct zt_prepare *p, struct zt_err *err) {                                               \
        return prepare(p, &id##_cell, false, err);                                                                     \
    }                                                                                                                  \
    static bool id##_grad_prepare(struct zt_prepare *p, struct zt_err *err) {                                          \
        return prepare(p, &id##_cell, true, err);                                                                      \
    }                                                                                                                  \
    const struct zt_kernel zt_kernel_##id##_cuda = { .prepare = id##_prepare, .run = forward, .release = release };    \
    const struct zt_kernel zt_kernel_##id##_grad_cuda = { .prepare = id##_grad_prepare,                                \
                                                          .run = backward,                                             \
                                                          .release = release }
KERNELS(rnn, ZT_RNN_CELL);
KERNELS(lstm, ZT_LSTM_CELL);
KERNELS(gru, ZT_GRU_CELL);
