/* One element of a 1-bit LAMB step, and the trust ratio of a tensor, for the loops of the host and for the CUDA kernels
 * (one_bit_lamb.c has the formula). */
#ifndef ZT_OPTIM_ONE_BIT_ONE_BIT_LAMB_H
#define ZT_OPTIM_ONE_BIT_ONE_BIT_LAMB_H

#include "optim/step.h"
#include "optim/one_bit/trust.h"

struct zt_one_bit_lamb {
    float scale, gain; /* as in one_bit_adam.h */
    float decay, lr, eps;
    float b1, a1, b2, a2;                       /* a = 1 - b */
    int frozen;                                 /* the variance is, and the momentum is averaged */
    int last;                                   /* the last update before that */
    float coeff_beta, most, least;              /* of the trust ratio */
    float factor_most, factor_least, threshold; /* of the factor on it */
};

ZT_ELEMENT float zt_one_bit_lamb_direction(const struct zt_one_bit_lamb *c, float p, float m, float v) {
    return m / (sqrtf(v) + c->eps) + c->decay * p;
}

/* Returns the number to average: the momentum with this rank's gradient, divided by the magnitude of the tensor's
 * momentum. A zero momentum stays zero. */
ZT_ELEMENT float zt_one_bit_lamb_pack(const struct zt_one_bit_lamb *c, const struct zt_trust *t, float g, float m) {
    return t->rms > 0 ? (c->b1 * m + c->a1 * (g * (c->scale * c->gain))) / t->rms : 0;
}

/* Contributions of one element to the norms. */
struct zt_one_bit_lamb_terms {
    float weight, direction, moment, quotient;
};

/* Of one element. `fresh`: the variance that goes on where v is frozen, of the gradient that the momenta of two updates
 * tell. */
struct zt_one_bit_lamb_states {
    float *m, *v, *fresh;
};

/* Advances the states. g: where frozen, the averaged multiple of the momentum. */
ZT_ELEMENT struct zt_one_bit_lamb_terms zt_one_bit_lamb_moments(const struct zt_one_bit_lamb *c,
                                                                const struct zt_trust *t, float p, float g,
                                                                struct zt_one_bit_lamb_states s) {
    float *m = s.m, *v = s.v, *fresh = s.fresh;
    struct zt_one_bit_lamb_terms to = { p, 0, 0, 0 };
    if (c->frozen) {
        const float mi = *v > 0 ? g * t->rms : 0, d = (mi - c->b1 * *m) / c->a1, root = sqrtf(*v) + c->eps;
        *fresh = c->b2 * *fresh + c->a2 * (d * d);
        *m = mi;
        to.moment = mi / root;
        to.quotient = root / (sqrtf(*fresh) + c->eps);
    } else {
        const float d = g * c->scale;
        *m = c->b1 * *m + c->a1 * d;
        *v = c->b2 * *v + c->a2 * (d * d);
        *fresh = c->last ? *v : *fresh;
        to.moment = *m;
    }
    to.direction = zt_one_bit_lamb_direction(c, p, *m, *v);
    return to;
}

ZT_ELEMENT void zt_one_bit_lamb_apply(const struct zt_one_bit_lamb *c, float rate, float *p, float m, float v) {
    *p -= rate * zt_one_bit_lamb_direction(c, *p, m, v);
}

ZT_ELEMENT double zt_one_bit_lamb_within(double x, double least, double most) {
    return x > most ? most : x < least ? least : x;
}

/* Before the freeze: the ratio of LAMB, and its moving average. A ratio of exactly 1 is left out of that, as in
 * DeepSpeed. */
ZT_ELEMENT void zt_one_bit_lamb_learn(const struct zt_one_bit_lamb *c, const struct zt_trust_norms *n,
                                      struct zt_trust *t) {
    double ratio = 1;
    if (n->weights > 0 && n->directions > 0)
        ratio = zt_one_bit_lamb_within(sqrt(n->weights) / sqrt(n->directions), (double)c->least, (double)c->most);
    t->ratio = (float)ratio;
    if (ratio != 1)
        t->average = (float)((double)c->coeff_beta * (double)t->average + (1 - (double)c->coeff_beta) * ratio);
    if (c->last) {
        t->factor = 1;
        t->rms = n->count > 0 ? (float)sqrt(n->moments / n->count) : 0;
    }
}

/* Behind it: the average times a factor that follows the fresh variance, slowly. */
ZT_ELEMENT void zt_one_bit_lamb_trust(const struct zt_one_bit_lamb *c, const struct zt_trust_norms *n,
                                      struct zt_trust *t) {
    if (!c->frozen) {
        zt_one_bit_lamb_learn(c, n, t);
        return;
    }
    double factor = n->most;
    if (c->decay > 0) {
        const double part = n->directions > 0 ? sqrt(n->moments) / sqrt(n->directions) : 1;
        const double share = part < 1 ? part : 1; /* of the direction that is not decay */
        factor = factor * share + (1 - share);
    }
    factor = zt_one_bit_lamb_within(factor, (double)c->factor_least, (double)c->factor_most);
    factor = zt_one_bit_lamb_within(factor, (double)t->factor * (1 - (double)c->threshold),
                                    (double)t->factor * (1 + (double)c->threshold));
    t->factor = (float)factor;
    t->ratio = t->average * t->factor;
}

#endif
