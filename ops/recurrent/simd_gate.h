/* Vector loops of the cells of recurrent nodes, on one row of floats between two matrix products of a step. Formulas
 * are in lstm.c, gru.c and rnn.c. Compiled for several instruction sets, chosen by CPUID; no result depends on its
 * place.
 */
#ifndef ZT_OPS_RECURRENT_SIMD_GATE_H
#define ZT_OPS_RECURRENT_SIMD_GATE_H

#include <stdint.h>

enum zt_simd_gate_kind { ZT_SIMD_SIGMOID, ZT_SIMD_TANH, ZT_SIMD_RELU };

/* A function at a gate. Its argument is clipped to -clip..clip; values outside low..high come from a clipped argument,
 * and their gradient is 0. */
struct zt_simd_gate {
    enum zt_simd_gate_kind kind;
    float clip, low, high;
};

/* Vectors of a row at a step, `hidden` long or one a gate, of which hidden units [first, end) are computed. h and c are
 * read and written in place. */
struct zt_simd_row {
    int64_t hidden, first, end;
    int64_t next, next_y; /* back: from this row's vectors to those of the row that is computed next, which are fetched:
                             rows of X, and floats of dy */
    const struct zt_simd_gate *function;
    int on;                /* input_forget */
    const float *peephole; /* NULL: none */
    float *gate;           /* forward: what enters the gates on entry, their values on exit; back: the values */
    float *saved;          /* LSTM: c after the step, NULL in forward: not saved. GRU: as gru.c keeps it */
    float *h, *c;          /* forward: the state */
    float *y;              /* h once more */
    const float *product;  /* GRU: R_g h; back, without linear_before_reset: da_g R_g */
    const float *bias;     /* GRU: Rb_g, NULL: none */
    const float *before_h, *before_c; /* back: the state before the step */
    const float *dy;                  /* back: added to dh first; NULL: zeros */
    float *dh, *dc;                   /* back: gradients of the state, after the step on entry, before it on exit, where
                                         the matrix product is still to be added */
    float *da, *u;                    /* back: gradients of what entered the gates; GRU: of R_g h */
    float *sum, *sum_u;               /* back: da and u are added to these; NULL: not */
};
typedef void zt_simd_row_function(const struct zt_simd_row *row);

struct zt_simd_cells {
    zt_simd_row_function *rnn, *rnn_back, *lstm, *lstm_back;
    zt_simd_row_function *gru_linear, *gru_linear_back; /* linear_before_reset: whole */
    zt_simd_row_function *gru_reset, *gru_update;       /* else: up to r h, and from its product on */
    zt_simd_row_function *gru_back, *gru_reset_back;    /* up to da_g, and from its product on */
};
/* The loops for the widest vectors of this machine. */
const struct zt_simd_cells *zt_simd_cells(void);

/* Sets clip, low and high (clip INFINITY: none). */
void zt_simd_gate_clip(struct zt_simd_gate *gate, float clip);

#endif
