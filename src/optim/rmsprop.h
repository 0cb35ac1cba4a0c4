/* One element of an RMSprop step, for the loops of the host and for the CUDA kernels (rmsprop.c has the formula). */
#ifndef ZT_OPTIM_RMSPROP_H
#define ZT_OPTIM_RMSPROP_H

#include "optim/step.h"

struct zt_rmsprop {
    float scale, decay, lr, eps;
    float alpha, take, momentum; /* take = 1 - alpha */
    int centered, buffered;      /* which states there are: v, then a with `centered`, then b with `buffered` */
};

/* d / (sqrt(v) + eps), with the variance in place of v where `a`, the mean of d, is not NULL */
ZT_ELEMENT float zt_rmsprop_direction(const struct zt_rmsprop *c, float p, float g, float *v, float *a) {
    float d = g * c->scale + c->decay * p;
    float vi = c->alpha * *v + c->take * (d * d), spread = vi;
    *v = vi;
    if (a) {
        float ai = c->alpha * *a + c->take * d;
        *a = ai;
        spread = vi - ai * ai;
        spread = spread < 0 ? 0 : spread; /* by rounding; a NaN stays one */
    }
    return d / (sqrtf(spread) + c->eps);
}

ZT_ELEMENT void zt_rmsprop_step(const struct zt_rmsprop *c, float *p, float g, float *v, float *a) {
    *p -= c->lr * zt_rmsprop_direction(c, *p, g, v, a);
}

ZT_ELEMENT void zt_rmsprop_momentum_step(const struct zt_rmsprop *c, float *p, float g, float *v, float *a, float *b) {
    float bi = c->momentum * *b + zt_rmsprop_direction(c, *p, g, v, a);
    *b = bi;
    *p -= c->lr * bi;
}

#endif
