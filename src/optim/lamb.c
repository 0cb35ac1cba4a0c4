/* LAMB (You et al., 2020) as DeepSpeed's fused kernel has it: moments without correction, a trust ratio per tensor, the
 * bias corrections in the step size.
 *
 *     u = m / (sqrt(v) + eps) + wd p              or m / sqrt(v + eps) + wd p with eps_inside_sqrt
 *     r = |p| / |u| within [min_coeff, max_coeff], 1 where a norm is 0
 *     p = p - lr sqrt(1 - b2^t) / (1 - b1^t) r u
 *
 * norms() advances the moments; update() computes u again from them, which is cheaper than keeping it. */
#include "optim/row.h"

#include <math.h>

struct lamb {
    float scale, decay, lr;
    float b1, a1, b2, a2;          /* a = 1 - b */
    float eps_inside, eps_outside; /* one of them is 0 */
};

static struct lamb lamb_prepare(const struct zt_update *u) {
    const struct zt_optimizer_config *o = u->config;
    double correction = 1;
    if (o->bias_correction)
        correction = sqrt(1 - pow(u->beta2, (double)u->step)) / (1 - pow(u->beta1, (double)u->step));
    return (struct lamb){
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .lr = (float)(u->lr * correction * (u->tensor_ratio ? *u->tensor_ratio : 1)),
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
        .eps_inside = o->eps_inside_sqrt ? (float)o->eps : 0,
        .eps_outside = o->eps_inside_sqrt ? 0 : (float)o->eps,
    };
}

static inline float direction(const struct lamb *c, float p, float m, float v) {
    return m / (sqrtf(v + c->eps_inside) + c->eps_outside) + c->decay * p;
}

ZT_CLONES static void lamb_moments(struct lamb c, const float *restrict p, const float *restrict g, float *restrict m,
                                   float *restrict v, float *restrict u, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] * c.scale;
        m[i] = c.b1 * m[i] + c.a1 * d;
        v[i] = c.b2 * v[i] + c.a2 * (d * d);
        u[i] = direction(&c, p[i], m[i], v[i]);
    }
}

ZT_CLONES static void lamb_apply(struct lamb c, float *restrict p, const float *restrict m, const float *restrict v,
                                 int64_t count) {
    for (int64_t i = 0; i < count; i++)
        p[i] -= c.lr * direction(&c, p[i], m[i], v[i]);
}

static void lamb_norms(const struct zt_update *u, const float *p, const float *g, float *const state[], int64_t count,
                       double norms[2]) {
    struct lamb c = lamb_prepare(u);
    float block[ZT_NORM_BLOCK];
    for (int64_t at = 0; at < count; at += ZT_NORM_BLOCK) {
        int64_t n = count - at < ZT_NORM_BLOCK ? count - at : ZT_NORM_BLOCK;
        lamb_moments(c, p + at, g + at, state[0] + at, state[1] + at, block, n);
        norms[0] += zt_sum_squares(p + at, n);
        norms[1] += zt_sum_squares(block, n);
    }
}

static double lamb_ratio(const struct zt_update *u, const double norms[2]) {
    if (norms[0] == 0 || norms[1] == 0)
        return 1;
    double ratio = sqrt(norms[0]) / sqrt(norms[1]);
    if (ratio > u->config->max_coeff)
        return u->config->max_coeff;
    return ratio < u->config->min_coeff ? u->config->min_coeff : ratio;
}

static void lamb_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    (void)g;
    lamb_apply(lamb_prepare(u), p, state[0], state[1], count);
}

const struct zt_optimizer zt_optimizer_lamb = {
    .name = "Lamb",
    .states = 2,
    .state_names = { "exp_avg", "exp_avg_sq" },
    .update = lamb_update,
    .norms = lamb_norms,
    .ratio = lamb_ratio,
};
