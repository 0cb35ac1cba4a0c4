/* What the float kernels of RNN, GRU and LSTM share: recurrent_cpu.c forwards, recurrent_grad_cpu.c backwards.
 *
 *     forwards    gates of all steps = X W^T + bias, one product; a step: += h R^T, then the cell on each row
 *     backwards   a step: the cell on each row, then dh += da R; after all steps dW = da^T X, dR = da^T h, dX = da W
 *
 * Steps go by in the order of time (last one first in the reverse direction) and rows that do not run at a time are
 * left alone, so X, Y and their gradients are used where they lie. `place` of (time, row) counts rows of X: vectors of
 * all steps lie in X's order in whatever layout. GRU's last gate has a product of its own (recurrent.h, `apart`).
 *
 * Rows never meet between the steps: where R fits the second cache each thread takes all steps of some rows, so that
 * threads wait for each other once and not at every step. Else they share each step's work, R's columns among it.
 *
 * The gates' values are kept for the gradient by the training form; else they are in the workspace. */
#ifndef ZT_OPS_RECURRENT_RECURRENT_CPU_H
#define ZT_OPS_RECURRENT_RECURRENT_CPU_H

#include "ops/recurrent/simd_gate.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/recurrent/recurrent.h"

enum { ZT_DIRECTION_PARTS = 16 }; /* that a sum over all steps is made of */

/* One direction of a call. */
struct zt_direction {
    const struct zt_recurrent *r;
    const struct zt_call *call;
    const struct zt_simd_gemm_kernel *kernel;
    struct zt_simd_gate function[3];
    int64_t d;
    bool back_in_time;
    int64_t place_step, place_row; /* of X */
    int64_t first, rows, places;   /* rows first..first+rows-1 of N are computed; S N */
    int threads;                   /* for them */
    bool cut;                      /* sequence_lens is given */
    const int32_t *lengths;        /* NULL: all rows run at all steps */
    float *gate, *kept;            /* [places, G H], [places, H]; kept NULL: not wanted */
    float *packed, *packed_last;   /* R's gates that see h, and the last one where it is apart */
    float *bias;                   /* forwards: Wb + Rb */
    float *h, *c, *product;        /* [N, H]; backwards gradients of h and c, and da_g R_g */
    float *da, *u, *before_h, *x;  /* backwards, [places, ...]: as zt_simd_row has them; X without rows that are over */
    float *zero, *part;            /* backwards: [H], [ZT_DIRECTION_PARTS, G H] */
    float *scratch;                /* of products */
    int64_t time;                  /* of the step that is computed */
    zt_simd_row_function *row_function; /* and what is done to its rows */
};

/* Inputs of a node; those of its gradient go on with Y, gates, kept and the gradients of the outputs. */
enum zt_recurrent_in { ZT_IN_W = 1, ZT_IN_R, ZT_IN_B, ZT_IN_LENGTHS, ZT_IN_H, ZT_IN_C, ZT_IN_P };

/* The products of a turn, by what they make. */
enum zt_direction_product {
    ZT_DIRECTION_GATES, /* all steps: X W^T + bias */
    ZT_DIRECTION_RECUR, /* a step: gates that see h += h R^T */
    ZT_DIRECTION_LAST,  /* a step: product = h R_g^T; kept R_g^T added to gate g where that comes after the reset */
    ZT_DIRECTION_BACK,  /* a step: dh += da R */
    ZT_DIRECTION_LAST_BACK /* a step: dh += u R_g, or product = da_g R_g */,
    ZT_DIRECTION_DX,      /* all steps: da W */
    ZT_DIRECTION_DW,      /* da^T X */
    ZT_DIRECTION_DR,      /* da^T h */
    ZT_DIRECTION_DR_LAST, /* u^T h or da_g^T kept */
    ZT_DIRECTION_PRODUCTS
};
struct zt_simd_gemm zt_direction_product(const struct zt_recurrent *r, enum zt_direction_product which);
/* Runs it; a, b, y: of the first row. `add`: to what is in y. */
void zt_direction_multiply(const struct zt_direction *t, enum zt_direction_product which, bool add, const float *a,
                           const float *b, const float *bias, float *y);

/* Fills all but the workspace's vectors. */
bool zt_direction_begin(struct zt_direction *t, const struct zt_recurrent *r, const struct zt_call *call,
                        struct zt_err *err);
void zt_direction_to(struct zt_direction *t, int64_t direction);
/* Packs R (transposed: for the way forwards). */
void zt_direction_pack(struct zt_direction *t, bool transposed);
/* Lays the workspace of either pass out from `base` (NULL: only counts); returns its floats. */
int64_t zt_direction_lay_out(struct zt_direction *t, float *base, bool backward, int threads);

/* A state [N, H] from input `in` (zeros where that is omitted; `to` NULL: nothing) and to an output (NULL: omitted). */
void zt_direction_load(const struct zt_direction *t, int in, float *to);
void zt_direction_store(const struct zt_direction *t, float *to, const float *from);

static inline float *zt_direction_at(float *vector, int64_t offset) {
    return vector ? vector + offset : NULL;
}
static inline int64_t zt_direction_width(const struct zt_recurrent *r) {
    return r->cell->gates * r->hidden;
}
static inline int64_t zt_direction_place(const struct zt_direction *t, int64_t time, int64_t row) {
    return time * t->place_step + row * t->place_row;
}
static inline bool zt_direction_runs(const struct zt_direction *t, int64_t time, int64_t row) {
    return !t->lengths || time < t->lengths[row];
}
/* Time of step s of 0..S-1. */
static inline int64_t zt_direction_time(const struct zt_direction *t, int64_t s) {
    return t->back_in_time ? t->r->steps - 1 - s : s;
}
/* Calls `row` for every row of t. */
void zt_direction_rows(struct zt_direction *t, void (*row)(struct zt_direction *t, int64_t n));
/* step(t) for all steps; last_first: in the opposite order. */
void zt_direction_steps(struct zt_direction *t, bool last_first, void (*step)(struct zt_direction *t));

/* Input i of a direction, `size` floats each; NULL where it is omitted. */
static inline const float *zt_direction_in(const struct zt_direction *t, int i, int64_t size) {
    return i < t->call->in_count && t->call->in[i].data ? (const float *)t->call->in[i].data + t->d * size : NULL;
}
static inline float *zt_direction_out(const struct zt_direction *t, int i, int64_t size) {
    return i < t->call->out_count && t->call->out[i].data ? (float *)t->call->out[i].data + t->d * size : NULL;
}

#endif
