/* One element of an Adagrad step, for the loop of the host and for the CUDA kernel (adagrad.c has the formula). */
#ifndef ZT_OPTIM_ADAGRAD_H
#define ZT_OPTIM_ADAGRAD_H

#include "optim/step.h"

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

#endif
