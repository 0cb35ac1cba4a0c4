/* One element of a 0/1 Adam step, for the loops of the host and for the CUDA kernels (zero_one_adam.c has the formula).
 */
#ifndef ZT_OPTIM_ONE_BIT_ZERO_ONE_ADAM_H
#define ZT_OPTIM_ONE_BIT_ZERO_ONE_ADAM_H

#include "optim/step.h"

enum zt_zero_one_kind { ZT_ZERO_ONE_VARIANCE, ZT_ZERO_ONE_GRADIENT, ZT_ZERO_ONE_LOCAL, ZT_ZERO_ONE_SYNC };

struct zt_zero_one_adam {
    float scale, gain; /* as in one_bit_adam.h */
    float decay, lr, eps;
    float b1, a1, b2, a2; /* a = 1 - b */
    float lr_sum;         /* of the updates since the last synchronization, this one included */
    int kind;             /* enum zt_zero_one_kind */
};

/* p = p - change; returns the change. */
ZT_ELEMENT float zt_zero_one_adam_move(const struct zt_zero_one_adam *c, float *p, float m, float v) {
    const float change = c->lr * (m / (sqrtf(v) + c->eps) + c->decay * *p);
    *p -= change;
    return change;
}

/* Elements with zero variance are not updated: compression does not transmit zeros, and a division by eps alone would
 * make the update large. */
ZT_ELEMENT float zt_zero_one_adam_masked(float x, float v) {
    return v > 0 ? x : 0;
}

/* A step with this rank's gradient alone. */
ZT_ELEMENT void zt_zero_one_adam_local(const struct zt_zero_one_adam *c, float *p, float g, float *m, float v,
                                       float *u) {
    *m = c->b1 * *m + c->a1 * zt_zero_one_adam_masked(g * (c->scale * c->gain), v);
    if (v > 0)
        *u -= zt_zero_one_adam_move(c, p, *m, v);
}

/* Returns the number to average: this rank's gradient, or its local steps, which are subtracted from p. */
ZT_ELEMENT float zt_zero_one_adam_pack(const struct zt_zero_one_adam *c, float *p, float g, float *m, float v,
                                       float *u) {
    if (c->kind == ZT_ZERO_ONE_GRADIENT)
        return g * (c->scale * c->gain);
    zt_zero_one_adam_local(c, p, g, m, v, u);
    *p -= *u;
    return *u * (sqrtf(v) + c->eps);
}

/* g: the reduced gradient, the mean of what was packed, or this rank's gradient, by kind. */
ZT_ELEMENT void zt_zero_one_adam_step(const struct zt_zero_one_adam *c, float *p, float g, float *m, float *v,
                                      float *u) {
    if (c->kind == ZT_ZERO_ONE_LOCAL) {
        zt_zero_one_adam_local(c, p, g, m, *v, u);
    } else if (c->kind == ZT_ZERO_ONE_SYNC) {
        const float mean = zt_zero_one_adam_masked(g, *v);
        *m = -(mean / c->lr_sum);
        *p += mean / (sqrtf(*v) + c->eps);
        *u = 0;
    } else {
        const int variance = c->kind == ZT_ZERO_ONE_VARIANCE;
        const float d = variance ? g * c->scale : zt_zero_one_adam_masked(g, *v);
        *v = variance ? c->b2 * *v + c->a2 * (d * d) : *v;
        *m = c->b1 * *m + c->a1 * d;
        zt_zero_one_adam_move(c, p, *m, *v);
    }
}

#endif
