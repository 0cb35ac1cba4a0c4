/* One element of an optimizer step, for the loops of the host and for the kernels of the CUDA module: the formulas
 * stand once. Only +, -, *, / and sqrt of IEEE 754, never contracted: both sides give the same bits. Coefficients are
 * made per update and group of parameters by zt_optimizer.prepare.
 *
 * A device keeps what changes from step to step in its own memory: struct zt_step_state, and a table of coefficients by
 * update and group, so that a step is queued without knowing the last one's outcome. */
#ifndef ZT_OPTIM_STEP_H
#define ZT_OPTIM_STEP_H

#include "optim/scale.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ZT_ELEMENT static __device__ inline
#else
#define ZT_ELEMENT static inline
#endif

struct zt_adam {
    float scale, l2, decay, lr, eps;
    float b1, a1, b2, a2;     /* a = 1 - b */
    float m_factor, v_factor; /* 1/(1 - b1^t), 1/sqrt(1 - b2^t) */
};

ZT_ELEMENT void zt_adam_step(const struct zt_adam *c, float *p, float g, float *m, float *v) {
    float d = g * c->scale + c->l2 * *p;
    float mi = c->b1 * *m + c->a1 * d;
    float vi = c->b2 * *v + c->a2 * (d * d);
    *m = mi;
    *v = vi;
    *p -= c->lr * (mi * c->m_factor / (sqrtf(vi) * c->v_factor + c->eps) + c->decay * *p);
}

struct zt_sgd {
    float scale, decay, lr;
    float keep, take; /* b = keep b + take d */
    float of_d, of_b; /* p = p - lr (of_d d + of_b b) */
};

ZT_ELEMENT void zt_sgd_step(const struct zt_sgd *c, float *p, float g) {
    *p -= c->lr * (g * c->scale + c->decay * *p);
}

ZT_ELEMENT void zt_sgd_momentum_step(const struct zt_sgd *c, float *p, float g, float *b) {
    float d = g * c->scale + c->decay * *p;
    float v = c->keep * *b + c->take * d;
    *b = v;
    *p -= c->lr * (c->of_d * d + c->of_b * v);
}

struct zt_lamb {
    float scale, decay;
    float b1, a1, b2, a2;          /* a = 1 - b */
    float eps_inside, eps_outside; /* one of them is 0 */
    double rate;                   /* lr with both corrections; times the trust ratio it is the step size */
    double most, least;            /* of the ratio */
};

ZT_ELEMENT float zt_lamb_direction(const struct zt_lamb *c, float p, float m, float v) {
    return m / (sqrtf(v + c->eps_inside) + c->eps_outside) + c->decay * p;
}

/* Advances the moments; returns the direction. */
ZT_ELEMENT float zt_lamb_moments(const struct zt_lamb *c, float p, float g, float *m, float *v) {
    float d = g * c->scale;
    *m = c->b1 * *m + c->a1 * d;
    *v = c->b2 * *v + c->a2 * (d * d);
    return zt_lamb_direction(c, p, *m, *v);
}

/* `lr`: (float)(rate * ratio) */
ZT_ELEMENT void zt_lamb_apply(const struct zt_lamb *c, float lr, float *p, float m, float v) {
    *p -= lr * zt_lamb_direction(c, *p, m, v);
}

/* The trust ratio from sum p^2 and sum u^2 of a tensor. */
ZT_ELEMENT double zt_lamb_ratio(const struct zt_lamb *c, const double *norms) {
    if (norms[0] == 0 || norms[1] == 0)
        return 1;
    double ratio = sqrt(norms[0]) / sqrt(norms[1]);
    if (ratio > c->most)
        return c->most;
    return ratio < c->least ? c->least : ratio;
}

struct zt_lion {
    float scale, shrink, lr; /* shrink = 1 - lr wd */
    float b1, a1, b2, a2;    /* a = 1 - b */
};

ZT_ELEMENT void zt_lion_step(const struct zt_lion *c, float *p, float g, float *m) {
    float d = g * c->scale;
    float mix = c->b1 * *m + c->a1 * d;
    float sign = mix > 0 ? 1.0f : mix < 0 ? -1.0f : mix;
    *p = *p * c->shrink - c->lr * sign;
    *m = c->b2 * *m + c->a2 * d;
}

struct zt_adagrad {
    float scale, decay, lr, eps;
    float start; /* added to v before the first step: state begins at zero */
};

ZT_ELEMENT void zt_adagrad_step(const struct zt_adagrad *c, float *p, float g, float *v) {
    float d = g * c->scale + c->decay * *p;
    float vi = (*v + c->start) + d * d;
    *v = vi;
    *p -= c->lr * (d / (sqrtf(vi) + c->eps));
}

/* Whichever the optimizer has; `scale`, what gradients are multiplied by, comes first in all of them. */
union zt_coefficients {
    float scale;
    struct zt_adam adam;
    struct zt_sgd sgd;
    struct zt_lamb lamb;
    struct zt_lion lion;
    struct zt_adagrad adagrad;
};

/* What a device remembers of the step at hand and from step to step. */
struct zt_step_state {
    double loss;               /* sum over micro-batches of loss times samples: this rank's, then all ranks' */
    double squares;            /* of the gradients alike; zt_step_clip leaves 0 in both, where the next step begins */
    double total;              /* the loss of all ranks */
    double norm;               /* of the gradients of all ranks */
    double loss_scale;         /* of the step at hand; 1: gradients are not scaled */
    int64_t updates;           /* applied before this step; with `finite`: after it */
    int64_t first;             /* the update that the first row of the table is for */
    float scale;               /* of the gradients: clip factor / loss scale */
    int finite;                /* 0: the update is left out; before the first step, where there was none */
    double scaled;             /* behind a step: the loss scale that it had */
    struct zt_scaling scaling; /* behind a step: of the next */
};

/* What a micro-batch brings to the device besides its columns. */
struct zt_step_feed {
    double samples;
    float seed, scaled; /* gradient of its loss; times the loss scale, which the device knows */
};

/* From loss and squares of all ranks: counts the update of the step before, finds what the optimizer asks of this one,
 * and what the next one scales with. clip: as zt_clip_factor has it. */
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

/* The loss of a micro-batch, nothing where it has no samples. */
ZT_ELEMENT void zt_step_add_loss(struct zt_step_state *s, const float *loss, const double *samples) {
    if (*samples > 0)
        s->loss += (double)*loss * *samples;
}

/* fp32 numbers that lie side by side. */
struct zt_floats {
    const float *at;
    int64_t count;
};

/* Between the gradients and the optimizer. The list is the host's; what it points to and all else is the device's. */
struct zt_step_norm {
    struct zt_step_state *state;
    const struct zt_floats *x; /* the gradients that this rank adds to the squares */
    int count;
    const float *loss; /* of the last micro-batch, which the state has not yet; NULL: has */
    const double *samples;
    double clip;
    bool whole; /* no other ranks add to the state: it is clipped at once */
};

/* Neighbouring elements of one tensor, ZT_STEP_PARTS * ZT_STEP_PART at most. A block of threads takes a part. */
enum { ZT_STEP_PART = 4096, ZT_STEP_PARTS = 16 };
struct zt_step_piece {
    float *param, *state[3]; /* states that the optimizer does not use: NULL */
    const float *grad;
    int64_t count;
    int group;    /* column of the table */
    int tensor;   /* of the ratios and norms */
    int measured; /* 0: another rank adds its norms */
};

/* What the kernels of a step are given; everything it points to lies in the device's memory. */
struct zt_step_call {
    const struct zt_step_state *state;
    const union zt_coefficients *table; /* [update - state->first][groups] */
    const struct zt_step_piece *pieces;
    int groups, piece_count, tensor_count;
    /* Optimizers with norms (Lamb), else unused: */
    double *parts;  /* [piece][part][2] */
    double *norms;  /* [tensor][2]: sum p^2, sum u^2 of the measured pieces */
    double *ratios; /* [tensor], of these norms; where other ranks have more of a tensor the host writes them anew */
};

/* What a module has of optimizers (device/module.h): ROW(name, update, norms). */
#define ZT_STEP_OPTIMIZERS(ROW)                                                                                        \
    ROW("Adam", adam, NULL)                                                                                            \
    ROW("AdamW", adam, NULL)                                                                                           \
    ROW("SGD", sgd, NULL)                                                                                              \
    ROW("Lion", lion, NULL)                                                                                            \
    ROW("Adagrad", adagrad, NULL)                                                                                      \
    ROW("Lamb", lamb, lamb_norms)

#endif
