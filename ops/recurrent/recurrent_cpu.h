/* Shared by the float kernels of RNN, GRU and LSTM: recurrent_cpu.c (forward) and recurrent_grad_cpu.c (backward).
 *
 *     forward     gates of all steps = X W^T + bias, one product; a step: += h R^T, then the cell on each row
 *     backward    a step: the cell on each row, then dh += da R; after all steps dW = da^T X, dR = da^T h, dX = da W
 *
 * Steps run in the order of time (in the reverse direction from the last one) and skip rows that have ended, so that X,
 * Y and their gradients are used in place. `place` of (time, row) counts rows of X: the vectors of all steps are in X's
 * order in every layout. GRU's last gate has a product of its own (recurrent.h, `apart`).
 *
 * Rows are independent of each other between the steps. Where R fits the second cache, each thread takes all steps of
 * some rows, and threads wait for each other once. Else the threads share each step's work by R's columns.
 *
 * The training form keeps the values of the gates for the gradient; other nodes hold them in the workspace. */
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
    float *gate, *saved;           /* [places, G H], [places, H]; saved NULL: not wanted */
    float *packed, *packed_last;   /* R's gates that see h, and the last one where it is apart */
    float *bias;                   /* forward: Wb + Rb; NULL without B */
    float *h, *c, *product;        /* [N, H]; backward: gradients of h and c, and da_g R_g */
    float *da, *u, *before_h, *x;  /* backward, [places, ...]: as zt_simd_row has them; X without rows that are over */
    float *zero, *part;            /* backward: [H], [ZT_DIRECTION_PARTS, G H] */
    float *scratch;                /* of products */
    int64_t time;                  /* of the step that is computed */
    zt_simd_row_function *row_function; /* and what is done to its rows */
};

/* Inputs of a node; those of its gradient go on with Y, gates, saved and the gradients of the outputs. */
enum zt_recurrent_in { ZT_IN_W = 1, ZT_IN_R, ZT_IN_B, ZT_IN_LENGTHS, ZT_IN_H, ZT_IN_C, ZT_IN_P };

/* The products of a direction, by their result. */
enum zt_direction_product {
    ZT_DIRECTION_GATES, /* all steps: X W^T + bias */
    ZT_DIRECTION_RECUR, /* a step: gates that see h += h R^T */
    ZT_DIRECTION_LAST,  /* a step: product = h R_g^T; saved R_g^T added to gate g where that comes after the reset */
    ZT_DIRECTION_BACK,  /* a step: dh += da R */
    ZT_DIRECTION_LAST_BACK /* a step: dh += u R_g, or product = da_g R_g */,
    ZT_DIRECTION_DX,      /* all steps: da W */
    ZT_DIRECTION_DW,      /* da^T X */
    ZT_DIRECTION_DR,      /* da^T h */
    ZT_DIRECTION_DR_LAST, /* u^T h or da_g^T saved */
    ZT_DIRECTION_PRODUCTS
};
struct zt_simd_gemm zt_direction_product(const struct zt_recurrent *r, enum zt_direction_product which);
/* Runs the product; a, b and y point to the first row. add: y += the result. ZT_DIRECTION_GATES adds t->bias. */
void zt_direction_multiply(const struct zt_direction *t, enum zt_direction_product which, bool add, const float *a,
                           const float *b, float *y);

/* Fills all fields but the pointers into the workspace. */
bool zt_direction_begin(struct zt_direction *t, const struct zt_recurrent *r, const struct zt_call *call,
                        struct zt_err *err);
/* Turns t to direction 0 or 1 of the node. */
void zt_direction_to(struct zt_direction *t, int64_t direction);
/* Packs R (transposed: for the forward pass). */
void zt_direction_pack(struct zt_direction *t, bool transposed);
/* Assigns the pointers into the workspace at `base` (NULL: only counts); returns the floats of the workspace. */
int64_t zt_direction_lay_out(struct zt_direction *t, float *base, bool backward, int threads);

/* Loads a state [N, H] from input `in` (zeros where the input is omitted; nothing where `to` is NULL), and stores one
 * to an output (nothing where `to` is NULL). */
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
