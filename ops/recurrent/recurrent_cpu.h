/* Shared by the float kernels of RNN, GRU and LSTM: recurrent_cpu.c (forward) and recurrent_grad_cpu.c (backward).
 *
 *     forward     gates of all steps = X W^T + bias, one product; a step: += h R^T, then the cell on each row
 *     backward    a step: the cell on each row, then dh += da R; after all steps dW = da^T X, dR = da^T h, dX = da W
 *
 * Steps run in the order of time (in the reverse direction from the last one) and skip rows that have ended, so that X,
 * Y and their gradients are used in place. `place` of (time, row) counts rows of X: the vectors of all steps are in X's
 * order in every layout. GRU's last gate has a product of its own (recurrent.h, `apart`).
 *
 * The two directions of a node run beside each other, on half of the threads each. Each thread takes all steps of some
 * rows, and threads wait for each other once. Where that would leave few rows for a large R, which then comes from far
 * memory for little work, a thread takes some hidden units of all rows: their columns of R stay in its cache, and
 * threads wait for each other once a step, before the product that reads what all of them have computed (GRU has two
 * such products).
 *
 * The training form keeps the values of the gates for the gradient; other nodes hold them in the workspace. */
#ifndef ZT_OPS_RECURRENT_RECURRENT_CPU_H
#define ZT_OPS_RECURRENT_RECURRENT_CPU_H

#include "ops/recurrent/simd_gate.h"
#include "ops/recurrent/step_product.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/recurrent/recurrent.h"

/* One direction of a call. Functions that take all directions of a node get an array of them. */
struct zt_direction {
    const struct zt_recurrent *r;
    const struct zt_call *call;
    const struct zt_simd_gemm_kernel *kernel;
    struct zt_simd_gate function[3];
    int64_t d;
    bool back_in_time;
    int64_t place_step, place_row; /* of X */
    int64_t first, rows, places;   /* rows first..first+rows-1 of N are computed; S N */
    struct zt_step_range units;    /* and these hidden units */
    int threads;                   /* for them */
    bool cut;                      /* sequence_lens is given */
    const int32_t *lengths;        /* NULL: all rows run at all steps */
    float *gate, *saved;           /* [places, G H], [places, H]; saved NULL: not wanted */
    float *packed, *packed_last;   /* R's gates that see h, and the last one where it is apart */
    float *seen[2], *last[2];      /* packed: what this step's products multiply by R, and what the next step's do */
    float *bias;                   /* forward: Wb + Rb; NULL without B */
    float *h, *c, *product;        /* [N, H]; backward: gradients of h and c, and da_g R_g */
    float *da, *u, *before_h, *x;  /* backward, [places, ...]: as zt_simd_row has them; X without rows that are over */
    float *zero, *sum, *sum_u;     /* backward: [H]; sums of da and u over the steps, [N, ...], NULL: not wanted */
    float *scratch;                /* of products */
    int64_t time;                  /* of the step that is computed */
    bool goes_on;                  /* a step was computed before */
};

/* Inputs of a node; those of its gradient go on with Y, gates, saved and the gradients of the outputs. */
enum zt_recurrent_in { ZT_IN_W = 1, ZT_IN_R, ZT_IN_B, ZT_IN_LENGTHS, ZT_IN_H, ZT_IN_C, ZT_IN_P };

/* The products over all steps of a direction, by their result. */
enum zt_direction_product {
    ZT_DIRECTION_GATES,   /* X W^T + bias, of both directions at once */
    ZT_DIRECTION_DX,      /* da W */
    ZT_DIRECTION_DW,      /* da^T X */
    ZT_DIRECTION_DR,      /* da^T h */
    ZT_DIRECTION_DR_LAST, /* u^T h or da_g^T saved */
    ZT_DIRECTION_PRODUCTS
};
/* Runs the product, which is not ZT_DIRECTION_GATES; a, b and y point to the first row. add: y += the result. */
void zt_direction_multiply(const struct zt_direction *t, enum zt_direction_product which, bool add, const float *a,
                           const float *b, float *y);
/* ZT_DIRECTION_DW and ZT_DIRECTION_DR, which pack da once. */
void zt_direction_multiply_da(const struct zt_direction *t, const float *x, float *dw, const float *h, float *dr);

/* The products of a step: h R^T, or backward da R, with the gates that see h or with the last one where it is apart;
 * without a matrix where the cell has no such gate. */
struct zt_step_product zt_direction_step_product(const struct zt_direction *t, bool backward, bool last);

/* Fills all fields of all directions but the pointers into the workspace. */
bool zt_direction_begin(struct zt_direction *t, const struct zt_recurrent *r, const struct zt_call *call,
                        struct zt_err *err);
/* Packs R. */
void zt_direction_pack(struct zt_direction *t, bool backward);
/* Assigns the pointers of all directions into the workspace at `base` (NULL: only counts); returns its floats. */
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
/* How the steps of all directions run: `begin`; `step` for every step, backward in the opposite order, and for each of
 * its phases; then `end`. A call computes t->rows and t->units, and begins when what it reads from other units is
 * there. */
struct zt_direction_steps {
    bool backward;
    int64_t phases;
    void (*begin)(struct zt_direction *t); /* these two may be NULL */
    void (*end)(struct zt_direction *t);
    void (*step)(struct zt_direction *t, int64_t phase);
};
void zt_direction_run(const struct zt_direction *t, const struct zt_direction_steps *steps);
/* t->rows of a state, or of vectors of X's order at t->time. */
static inline struct zt_step_rows zt_direction_state(const struct zt_direction *t, float *state) {
    return (struct zt_step_rows){ state + t->first * t->r->hidden, t->rows, t->r->hidden };
}
static inline struct zt_step_rows zt_direction_now(const struct zt_direction *t, float *vectors, int64_t wide) {
    return (struct zt_step_rows){ vectors + zt_direction_place(t, t->time, t->first) * wide, t->rows,
                                  t->place_row * wide };
}
/* Packs t->units of what a product of a step multiplies by R, or computes them from the packed a and b. */
void zt_direction_step_pack(const struct zt_direction *t, const struct zt_step_product *p, struct zt_step_rows a,
                            float *to);
void zt_direction_step_run(const struct zt_direction *t, const struct zt_step_product *p, const float *a,
                           const float *b, struct zt_step_rows y, bool add);

/* Input i of a direction, `size` floats each; NULL where it is omitted. */
static inline const float *zt_direction_in(const struct zt_direction *t, int i, int64_t size) {
    return i < t->call->in_count && t->call->in[i].data ? (const float *)t->call->in[i].data + t->d * size : NULL;
}
static inline float *zt_direction_out(const struct zt_direction *t, int i, int64_t size) {
    return i < t->call->out_count && t->call->out[i].data ? (float *)t->call->out[i].data + t->d * size : NULL;
}

#endif
