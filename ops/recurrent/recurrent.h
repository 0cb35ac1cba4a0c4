/* Shared by RNN, GRU and LSTM: reading a node, the time loop of the reference kernels, and the rows.
 *
 * A direction of a node is one loop over the steps. Sequences are first copied into the order of the loop (row n at
 * step s holds time s, or length[n] - 1 - s in the reverse direction), so the loop needs neither direction, layout nor
 * lengths. One product multiplies the inputs of all steps by their weights; then each step computes its recurrent
 * product and the gates of the cell. A row whose sequence has ended keeps its state and has 0 in Y, as in onnxruntime;
 * a sequence without steps ends in 0. `clip` limits the input of the gates, not the cell state, as in onnxruntime.
 *
 * A node that will be differentiated becomes ztrain.LSTMTrain (GRUTrain, RNNTrain). Its additional outputs are the
 * values of the gates, in X's order of steps and rows, [D, S, N, G H] or [D, N, S, G H], and `saved`, [D, S, N, H]: c
 * of LSTM; gru.c defines that of GRU. Both are 0 for rows whose sequence has ended. The float kernels (recurrent_cpu.h)
 * compute the gradient from them; the reference kernels, which take any gate function, repeat the forward loop.
 *
 * The reference kernels compute in double, in the workspace. Letters: S steps, N rows (the batch), I inputs, H hidden
 * units, G gates. */
#ifndef ZT_OPS_RECURRENT_RECURRENT_H
#define ZT_OPS_RECURRENT_RECURRENT_H

#include "ops/recurrent/kernels.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

/* ---- functions of gates ---- */

struct zt_gate_function {
    /* x becomes f(x), and slope (NULL: not asked for) f'(x). */
    void (*run)(const struct zt_gate_function *f, int64_t count, double *x, double *slope);
    double alpha, beta;
};

/* A function by its ONNX name, upper or lower case, with its defaults; says whether it reads alpha and beta. False:
 * there is none. */
bool zt_gate_find(const char *name, struct zt_gate_function *to, bool *alpha, bool *beta);

/* The functions that float kernels have; their slopes follow from their values. -1: another one. */
enum zt_gate_plain { ZT_GATE_SIGMOID, ZT_GATE_TANH, ZT_GATE_RELU };
int zt_gate_plain(const struct zt_gate_function *f);

/* ---- a node ---- */

struct zt_time_loop;

struct zt_cell {
    int gates;               /* G: blocks of H rows in W and R */
    int ins, outs;           /* of the node: X W R B sequence_lens initial_h (initial_c P); Y Y_h (Y_c) */
    int extra;               /* further outputs of the training form: gates, saved */
    int functions;           /* a direction */
    const char *usual[3];    /* their names where the node does not say */
    const char *switch_name; /* attribute that `zt_recurrent.on` holds; NULL: none */
    int saved;               /* vectors of H that forward leaves in `saved` for backward */
    int apart;               /* last gates whose recurrent bias is not added to `bias` while the switch is on */
    /* Step s: gate holds W x + bias on entry and the gates' values on exit, slope their derivatives; h and c of s + 1
     * are written for the rows that still run. */
    void (*forward)(struct zt_time_loop *w, int64_t s);
    /* Step s backwards: turns slope into the gradients of what entered the gates, and dh and dc, gradients of h and c
     * at s + 1, into those at s. */
    void (*backward)(struct zt_time_loop *w, int64_t s);
    /* Gradients of R and of the recurrent bias after the last step; NULL: zt_time_loop_recurrent_grad over all gates.
     */
    void (*recurrent_grad)(struct zt_time_loop *w);
};

/* The fields of a cell that ONNX determines, without its functions. */
#define ZT_LSTM_CELL                                                                                                   \
    .gates = 4, .ins = 8, .outs = 3, .extra = 2, .functions = 3, .usual = { "Sigmoid", "Tanh", "Tanh" },               \
    .switch_name = "input_forget"
#define ZT_GRU_CELL                                                                                                    \
    .gates = 3, .ins = 6, .outs = 2, .extra = 2, .functions = 2, .usual = { "Sigmoid", "Tanh" },                       \
    .switch_name = "linear_before_reset", .apart = 1
#define ZT_RNN_CELL .gates = 1, .ins = 6, .outs = 2, .extra = 1, .functions = 1, .usual = { "Tanh" }

struct zt_recurrent {
    const struct zt_cell *cell;
    int64_t steps, rows, input, hidden, directions;
    bool reverse;                       /* of the first direction */
    bool rows_first;                    /* layout 1: X [N, S, I], Y [N, S, D, H], states [N, D, H] */
    bool on;                            /* the cell's switch */
    double clip;                        /* INFINITY: none */
    int64_t x_step, x_row;              /* of X */
    int64_t y_step, y_row, y_direction; /* of Y; direction: from one direction to the next */
    int64_t h_row, h_direction;         /* of initial and last states */
    struct zt_gate_function function[2][3];
};

/* Reads a node of any row of the cell; shapes of inputs must be known. Errors name the node: shapes that do not fit,
 * unknown functions of gates, attributes out of range. */
bool zt_recurrent_read(const struct zt_cell *cell, const struct zt_graph *g, int node, struct zt_recurrent *to,
                       struct zt_err *err);
/* The shape of initial_h, initial_c, Y_h and Y_c: [D, N, H], with rows_first [N, D, H]. */
struct zt_shape zt_recurrent_state_shape(const struct zt_recurrent *r);

/* ---- the time loop ---- */

/* Offsets of a row at a step: (s N + n) times the width. h and c have S + 1 steps. */
struct zt_time_loop {
    const struct zt_recurrent *r;
    const struct zt_gate_function *function;
    int threads;
    int64_t *length;                          /* [N] */
    double *weight, *recurrent;               /* [G H, I], [G H, H] */
    double *bias, *recurrent_bias, *peephole; /* [G H], [G H], [3 H] */
    double *x, *gate, *slope;                 /* [S, N, I], [S, N, G H] twice; slope NULL in a forward node */
    double *h, *c, *saved;                    /* [S + 1, N, H] twice, [S, N, saved H] */
    double *product, *next;                   /* [N, G H] and [N, H]: for the cell's products */
    double *dh, *dc, *apart;                  /* [N, H] twice, [S, N, H] for the cell */
    double *dx, *dweight;                     /* as X, for both directions; [G H, I] */
    double *drecurrent, *dbias, *dpeephole;   /* [G H, H], [2, G H], [3 H] */
};
/* All directions of a node or its gradient, and the workspace of either. */
bool zt_time_loop_forward(const struct zt_recurrent *r, const struct zt_call *call, struct zt_err *err);
bool zt_time_loop_backward(const struct zt_recurrent *r, const struct zt_call *call, struct zt_err *err);
size_t zt_time_loop_bytes(const struct zt_recurrent *r, bool backward);

/* ---- for cells ---- */

/* A matrix: element (r, c) lies at r row + c col. */
struct zt_factor {
    const double *data;
    int64_t row, col;
};
/* product[N, count H] = in[N, H] R^T for gates first .. first + count. */
void zt_time_loop_recur(struct zt_time_loop *w, const double *in, int first, int count);
/* next[N, H] = d[N, count H] R for the same gates: the way back. */
void zt_time_loop_recur_back(struct zt_time_loop *w, struct zt_factor d, int first, int count);
void zt_time_loop_add_next(struct zt_time_loop *w, int64_t s, int64_t n); /* a row: dh += next */
/* Runs `row` for every row n that is not over at step s. */
void zt_time_loop_rows(struct zt_time_loop *w, int64_t s, void (*row)(struct zt_time_loop *w, int64_t s, int64_t n));
/* x becomes the gate's value, slope (may be NULL) its derivative, in both cases of x cut at clip. */
void zt_time_loop_gate(const struct zt_time_loop *w, int function, int64_t count, double *x, double *slope);
/* dR and the recurrent bias's gradient for gates first .. first + count, from the gradient of their products over all
 * steps, `d`, and what R was multiplied with, in[S N, H]. */
void zt_time_loop_recurrent_grad(struct zt_time_loop *w, int first, int count, struct zt_factor d, const double *in);

/* ---- rows ---- */

/* `infer` of the forward rows, with Y [S, D, N, H] (rows_first: [N, S, D, H]) and states of zt_recurrent_state_shape(),
 * and of the gradient rows, whose outputs have the shapes of the inputs X W R B ... Errors are those of
 * zt_recurrent_read(). */
bool zt_recurrent_infer(const struct zt_cell *cell, struct zt_graph *g, int node, struct zt_err *err);
bool zt_recurrent_grad_infer(const struct zt_cell *cell, struct zt_graph *g, int node, struct zt_err *err);
/* Rules of the node as it is, which emits its training form first, and of that. */
bool zt_recurrent_grad(const struct zt_cell *cell, struct zt_grad *b, int node, const char *train, const char *grad);
bool zt_recurrent_train(const struct zt_op *row, struct zt_graph *g, int node, const struct zt_train_options *options,
                        struct zt_err *err);
/* The reference kernels, in double; `backward`: of the gradient. */
bool zt_recurrent_prepare(const struct zt_cell *cell, bool backward, struct zt_prepare *p, struct zt_err *err);
bool zt_recurrent_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err);
bool zt_recurrent_grad_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err);
/* Whether the float kernels of the CPU and the CUDA kernels take the node; the CPU kernels (recurrent_cpu.c). */
bool zt_recurrent_cpu_supports(const struct zt_cell *cell, const struct zt_graph *g, int node);
bool zt_recurrent_takes_cuda(const struct zt_cell *cell, const struct zt_graph *g, int node);
bool zt_recurrent_cpu_prepare(const struct zt_cell *cell, bool backward, struct zt_prepare *p, struct zt_err *err);
bool zt_recurrent_cpu_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err);
bool zt_recurrent_grad_cpu_run(const struct zt_cell *cell, const struct zt_call *call, struct zt_err *err);
/* Writes the gradient in standard operators (recurrent_onnx.c). */
bool zt_recurrent_grad_function_body(const struct zt_cell *cell, struct zt_function_body *b, const struct zt_graph *g,
                                     int node, struct zt_err *err);
double zt_recurrent_flops(const struct zt_cell *cell, const struct zt_graph *g, int node);
/* Of weights and data; without the products of the input's gradient where nothing wants it. */
double zt_recurrent_grad_flops(const struct zt_cell *cell, const struct zt_graph *g, int node);

#define ZT_RECURRENT_ATTRS                                                                                             \
    { "activation_alpha", ZT_ATTR_FLOATS }, { "activation_beta", ZT_ATTR_FLOATS }, { "activations", ZT_ATTR_STRINGS }, \
        { "clip", ZT_ATTR_FLOAT }, { "direction", ZT_ATTR_STRING }, {                                                  \
        "hidden_size", ZT_ATTR_INT                                                                                     \
    }

#define ZT_RECURRENT_TYPES                                                                                             \
    .in_types = { ZT_ANY_FLOAT,   ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT,                                            \
                  1u << ZT_INT32, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },                                          \
    .same_type = ~(1u << 4)

/* Rows NAME of opset 7 and 14, NAMETrain with EXTRA more outputs and NAMEGrad for the cell `id`_cell; attributes
 * `id`_old_attrs and `id`_attrs. */
#define ZT_RECURRENT_ROWS(id, NAME, INS, OUTS, EXTRA)                                                                  \
    static bool id##_infer(struct zt_graph *g, int node, struct zt_err *err) {                                         \
        return zt_recurrent_infer(&id##_cell, g, node, err);                                                           \
    }                                                                                                                  \
    static bool id##_grad_infer(struct zt_graph *g, int node, struct zt_err *err) {                                    \
        return zt_recurrent_grad_infer(&id##_cell, g, node, err);                                                      \
    }                                                                                                                  \
    static bool id##_grad(struct zt_grad *b, int node, struct zt_err *err) {                                           \
        (void)err;                                                                                                     \
        return zt_recurrent_grad(&id##_cell, b, node, NAME "Train", NAME "Grad");                                      \
    }                                                                                                                  \
    static bool id##_prepare(struct zt_prepare *p, struct zt_err *err) {                                               \
        return zt_recurrent_prepare(&id##_cell, false, p, err);                                                        \
    }                                                                                                                  \
    static bool id##_grad_prepare(struct zt_prepare *p, struct zt_err *err) {                                          \
        return zt_recurrent_prepare(&id##_cell, true, p, err);                                                         \
    }                                                                                                                  \
    static bool id##_ref(const struct zt_call *call, struct zt_err *err) {                                             \
        return zt_recurrent_run(&id##_cell, call, err);                                                                \
    }                                                                                                                  \
    static bool id##_grad_ref(const struct zt_call *call, struct zt_err *err) {                                        \
        return zt_recurrent_grad_run(&id##_cell, call, err);                                                           \
    }                                                                                                                  \
    static bool id##_cpu_supports(const struct zt_graph *g, int node) {                                                \
        return zt_recurrent_cpu_supports(&id##_cell, g, node);                                                         \
    }                                                                                                                  \
    static bool id##_cuda_supports(const struct zt_graph *g, int node) {                                               \
        return zt_recurrent_takes_cuda(&id##_cell, g, node);                                                           \
    }                                                                                                                  \
    static bool id##_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {                                           \
        return zt_recurrent_cpu_prepare(&id##_cell, false, p, err);                                                    \
    }                                                                                                                  \
    static bool id##_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {                                      \
        return zt_recurrent_cpu_prepare(&id##_cell, true, p, err);                                                     \
    }                                                                                                                  \
    static bool id##_cpu(const struct zt_call *call, struct zt_err *err) {                                             \
        return zt_recurrent_cpu_run(&id##_cell, call, err);                                                            \
    }                                                                                                                  \
    static bool id##_grad_cpu(const struct zt_call *call, struct zt_err *err) {                                        \
        return zt_recurrent_grad_cpu_run(&id##_cell, call, err);                                                       \
    }                                                                                                                  \
    static double id##_flops(const struct zt_graph *g, int node) {                                                     \
        return zt_recurrent_flops(&id##_cell, g, node);                                                                \
    }                                                                                                                  \
    static double id##_grad_flops(const struct zt_graph *g, int node) {                                                \
        return zt_recurrent_grad_flops(&id##_cell, g, node);                                                           \
    }                                                                                                                  \
    static ZT_FUNCTION_BODY(id##_grad_function_body) {                                                                 \
        return zt_recurrent_grad_function_body(&id##_cell, b, g, node, err);                                           \
    }                                                                                                                  \
    const struct zt_op zt_op_##id##_train = {                                                                          \
        .name = NAME "Train",                                                                                          \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        .attrs = id##_attrs,                                                                                           \
        ZT_RECURRENT_ROW(id, INS, (OUTS) + (EXTRA)),                                                                   \
    };                                                                                                                 \
    static bool id##_train(struct zt_graph *g, int node, const struct zt_train_options *options, struct zt_err *err) { \
        return zt_recurrent_train(&zt_op_##id##_train, g, node, options, err);                                         \
    }                                                                                                                  \
    const struct zt_op zt_op_##id##_7 = { .name = NAME,                                                                \
                                          .domain = "",                                                                \
                                          .since = 7,                                                                  \
                                          .until = 13,                                                                 \
                                          .attrs = id##_old_attrs,                                                     \
                                          .body = zt_same_opset_form_body,                                             \
                                          .train = id##_train,                                                         \
                                          ZT_RECURRENT_ROW(id, INS, OUTS) };                                           \
    const struct zt_op zt_op_##id = { .name = NAME,                                                                    \
                                      .domain = "",                                                                    \
                                      .since = 14,                                                                     \
                                      .attrs = id##_attrs,                                                             \
                                      .train = id##_train,                                                             \
                                      ZT_RECURRENT_ROW(id, INS, OUTS) };                                               \
    const struct zt_op zt_op_##id##_grad = {                                                                           \
        .name = NAME "Grad",                                                                                           \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        .min_in = 3,                                                                                                   \
        .max_in = (INS) + 1 + (EXTRA) + (OUTS),                                                                        \
        .min_out = 0,                                                                                                  \
        .max_out = INS,                                                                                                \
        ZT_RECURRENT_TYPES,                                                                                            \
        .attrs = id##_attrs,                                                                                           \
        .flags = ZT_OP_BFLOAT_PRODUCTS,                                                                                \
        .infer = id##_grad_infer,                                                                                      \
        .body = id##_grad_function_body,                                                                               \
        .flops = id##_grad_flops,                                                                                      \
        .kernel = { [ZT_REF] = { .prepare = id##_grad_prepare, .run = id##_grad_ref },                                 \
                    [ZT_CPU] = { .supports = id##_cpu_supports,                                                        \
                                 .prepare = id##_grad_cpu_prepare,                                                     \
                                 .run = id##_grad_cpu },                                                               \
                    [ZT_CUDA] = ZT_ON_CUDA(id##_grad, id##_cuda_supports) },                                           \
    };
#define ZT_RECURRENT_ROW(id, INS, OUTS)                                                                                \
    .min_in = 3, .max_in = (INS), .min_out = 0, .max_out = (OUTS), ZT_RECURRENT_TYPES, .infer = id##_infer,            \
    .grad = id##_grad, .no_grad_in = 1 << 4, .flops = id##_flops, .flags = ZT_OP_BFLOAT_PRODUCTS,                      \
    .kernel = { [ZT_REF] = { .prepare = id##_prepare, .run = id##_ref },                                               \
                [ZT_CPU] = { .supports = id##_cpu_supports, .prepare = id##_cpu_prepare, .run = id##_cpu },            \
                [ZT_CUDA] = ZT_ON_CUDA(id, id##_cuda_supports) }

#endif
