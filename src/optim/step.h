/* The optimizer step on a device: the state that the device keeps in its own memory, and the arguments of the kernels.
 *
 * The formulas of the optimizers (optim/NAME.h) and of the state are inline functions that the host and the CUDA
 * kernels both compile. They use +, -, *, / and sqrt of IEEE 754 alone, never contracted, so that both sides give the
 * same bits. A device keeps the values that change from step to step in its own memory: struct zt_step_state, and a
 * table of coefficients by update and group. So a step is queued before the outcome of the step before it is known. */
#ifndef ZT_OPTIM_STEP_H
#define ZT_OPTIM_STEP_H

#include "optim/matrix.h"
#include "optim/loss_scale.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ZT_ELEMENT static __device__ inline /* a formula that host and kernels compile */
#else
#define ZT_ELEMENT static inline
#endif

/* The coefficients of one update for one group of parameters: a struct of the optimizer (optim/NAME.h), copied here by
 * its prepare function. The struct begins with the float `scale`, the factor on the gradients. */
union zt_coefficients {
    float scale;
    double room[12];
};

/* The state of the current step, and of the run from step to step, in the memory of a device. */
struct zt_step_state {
    double loss;               /* sum over micro-batches of loss times samples: this rank's, then all ranks' */
    double squares;            /* of the gradients alike; zt_step_clip leaves 0 in both, where the next step begins */
    double total;              /* the loss of all ranks */
    double norm;               /* of the gradients of all ranks */
    double loss_scale;         /* of the current step; 1: gradients are not scaled */
    int64_t updates;           /* applied before this step; with `finite`: after it */
    int64_t first;             /* the update that the first row of the table is for */
    float scale;               /* of the gradients: clip factor / loss scale */
    int finite;                /* 0: the update is left out; before the first step, where there was none */
    double scaled;             /* behind a step: the loss scale that it had */
    struct zt_scaling scaling; /* behind a step: of the next */
};

/* The numbers that a micro-batch brings to the device besides its columns. */
struct zt_step_feed {
    double samples;     /* the weight of its loss */
    float seed, scaled; /* gradient of its loss; times the loss scale, which the device knows */
};

/* Takes loss and squares of all ranks: counts the update of the step before, sets norm, finiteness and gradient scale
 * of this step, and the loss scale of the next. `clip`: the largest norm, 0: no clipping (zt_clip_factor). */
ZT_ELEMENT void zt_step_clip(struct zt_step_state *s, double clip) {
    s->updates += s->finite;
    s->total = s->loss;
    s->norm = sqrt(s->squares) / s->loss_scale;
    s->finite = isfinite(s->norm) && isfinite(s->total);
    const double factor = clip / (s->norm + 1e-6);
    s->scale = (float)((clip > 0 && factor < 1 ? factor : 1) / s->loss_scale);
    s->loss = s->squares = 0;
    s->scaled = s->loss_scale;
    zt_scaling_step(&s->scaling, !s->finite);
    if (s->scaling.dynamic)
        s->loss_scale = s->scaling.scale;
}

/* Adds the loss of a micro-batch; one without samples adds nothing. */
ZT_ELEMENT void zt_step_add_loss(struct zt_step_state *s, const float *loss, const double *samples) {
    if (*samples > 0)
        s->loss += (double)*loss * *samples;
}

/* The average of the weights after an update of one, with keep + take = 1 (ztrain.ema). */
ZT_ELEMENT void zt_step_average(float keep, float take, float p, float *average) {
    *average = keep * *average + take * p;
}

/* A contiguous array of fp32 numbers. */
struct zt_floats {
    const float *at;
    int64_t count;
};

/* The work between the gradients and the optimizer. The list `x` is in host memory, everything else on the device. */
struct zt_step_norm {
    struct zt_step_state *state;
    const struct zt_floats *x; /* the gradients that this rank adds to the squares */
    int count;
    const float *loss; /* of the last micro-batch, to be added to the state; NULL: the state has it already */
    const double *samples;
    double clip;
    bool whole; /* no other ranks add to the state: it is clipped at once */
};

struct zt_trust; /* optim/one_bit/trust.h */

/* Neighbouring elements of one tensor, ZT_STEP_PARTS * ZT_STEP_PART at most. A block of threads takes a part. */
enum { ZT_STEP_PART = 4096, ZT_STEP_PARTS = 16, ZT_STEP_NORMS = 4 };
struct zt_step_piece {
    float *param, *state[3]; /* states that the optimizer does not use: NULL */
    float *average;          /* of the weights; NULL: there is none */
    const float *grad;       /* 1-bit optimizers pack into it */
    int64_t count;
    int group;    /* column of the table */
    int tensor;   /* of the ratios and norms */
    int measured; /* 0: another rank adds its norms */
    int matrix;   /* the tensor is updated as a matrix (struct zt_step_matrix) */
    int64_t at;   /* the place of its first element in the tensor */
};

/* A tensor that is updated as a matrix (struct zt_matrix_optimizer of optim/optim.h), and its neighbouring pieces. */
struct zt_step_matrix {
    struct zt_matrix shape;
    int method; /* of the optimizer */
    int first_piece, piece_count;
    float *direction, *room; /* device memory: of the whole tensor; of the iteration */
};

/* The arguments of the kernels of a step; all pointers are into device memory. */
struct zt_step_call {
    const struct zt_step_state *state;
    const union zt_coefficients *table; /* [update - state->first][groups] */
    const struct zt_step_piece *pieces;
    int groups, piece_count, tensor_count;
    /* Optimizers with norms (Lamb), else unused: */
    double *parts;  /* [piece][part][2]; 1-bit LAMB: [ZT_STEP_NORMS] */
    double *norms;  /* [tensor][2]: sum p^2, sum u^2 of the measured pieces */
    double *ratios; /* [tensor], of these norms; where other ranks have more of a tensor the host writes them anew */
    struct zt_trust *trust; /* [tensor]; 1-bit LAMB has it instead of norms and ratios */
};

#endif
