/* One element of a LAMB step, and the trust ratio of a tensor, for the loops of the host and for the CUDA kernels
 * (lamb.c has the formula). */
#ifndef ZT_OPTIM_LAMB_H
#define ZT_OPTIM_LAMB_H

#include "optim/step.h"

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

#endif
