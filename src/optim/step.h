/* One element of an optimizer step, for the loops of the host and for the kernels of the CUDA module: the formulas
 * stand once. Only +, -, *, / and sqrt of IEEE 754, never contracted: both sides give the same bits. Coefficients are
 * made per call by the functions of row.h. */
#ifndef ZT_OPTIM_STEP_H
#define ZT_OPTIM_STEP_H

#include <math.h>

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

#endif
