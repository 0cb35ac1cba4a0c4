/* One element of an SGD step, for the loops of the host and for the CUDA kernel (sgd.c has the formula). */
#ifndef ZT_OPTIM_SGD_H
#define ZT_OPTIM_SGD_H

#include "optim/step.h"

struct zt_sgd {
    float scale, decay, lr;
    float keep, take; /* b = keep b + take d */
    float of_d, of_b; /* p = p - lr (of_d d + of_b b) */
    int buffered;     /* 0: no momentum, and no state b */
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

#endif
