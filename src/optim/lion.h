/* One element of a Lion step, for the loop of the host and for the CUDA kernel (lion.c has the formula). */
#ifndef ZT_OPTIM_LION_H
#define ZT_OPTIM_LION_H

#include "optim/step.h"

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

#endif
