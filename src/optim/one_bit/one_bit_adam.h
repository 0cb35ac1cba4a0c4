/* One element of a 1-bit Adam step, for the loops of the host and for the CUDA kernels (one_bit_adam.c has the
 * formula).
 */
#ifndef ZT_OPTIM_ONE_BIT_ONE_BIT_ADAM_H
#define ZT_OPTIM_ONE_BIT_ONE_BIT_ADAM_H

#include "optim/step.h"

struct zt_one_bit_adam {
    float scale, gain; /* gain: ranks, on a gradient that is not reduced, which is its rank's part of the mean */
    float decay, lr, eps;
    float b1, a1, b2, a2; /* a = 1 - b */
    int frozen;           /* the variance is, and the momentum is averaged */
};

/* Returns the number to average: the momentum with this rank's gradient. */
ZT_ELEMENT float zt_one_bit_adam_pack(const struct zt_one_bit_adam *c, float g, float m) {
    return c->b1 * m + c->a1 * (g * (c->scale * c->gain));
}

/* g: where frozen, the averaged momentum */
ZT_ELEMENT void zt_one_bit_adam_step(const struct zt_one_bit_adam *c, float *p, float g, float *m, float *v) {
    const float d = g * c->scale;
    const float mean = *v > 0 ? g : 0; /* compression cannot bring a zero, and eps alone would make it large */
    const float mi = c->frozen ? mean : c->b1 * *m + c->a1 * d, vi = c->frozen ? *v : c->b2 * *v + c->a2 * (d * d);
    *m = mi;
    *v = vi;
    *p -= c->lr * (mi / (sqrtf(vi) + c->eps) + c->decay * *p);
}

#endif
