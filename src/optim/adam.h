/* One element of an Adam or AdamW step, for the loop of the host and for the CUDA kernel (adam.c has the formula). */
#ifndef ZT_OPTIM_ADAM_H
#define ZT_OPTIM_ADAM_H

#include "optim/step.h"

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

#endif
