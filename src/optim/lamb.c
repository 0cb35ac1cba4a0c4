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

static struct zt_lamb coefficients(const struct zt_update *u) {
    const struct zt_optimizer_config *o = u->config;
    double correction = 1;
    if (o->bias_correction)
        correction = sqrt(1 - pow(u->beta2, (double)u->step)) / (1 - pow(u->beta1, (double)u->step));
    return (struct zt_lamb){
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
        .eps_inside = o->eps_inside_sqrt ? (float)o->eps : 0,
        .eps_outside = o->eps_inside_sqrt ? 0 : (float)o->eps,
        .rate = u->lr * correction,
        .most = o->max_coeff,
        .least = o->min_coeff,
    };
}

ZT_CLONES static void lamb_moments(struct zt_lamb c, const float *restrict p, const float *restrict g,
                                   float *restrict m, float *restrict v, float *restrict u, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        u[i] = zt_lamb_moments(&c, p[i], g[i], &m[i], &v[i]);
}

ZT_CLONES static void lamb_run(struct zt_lamb c, float lr, float *restrict p, const float *restrict m,
                               const float *restrict v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_lamb_apply(&c, lr, &p[i], m[i], v[i]);
}

static void lamb_norms(const struct zt_update *u, const float *p, const float *g, float *const state[], int64_t count,
                       double norms[2]) {
    struct zt_lamb c = coefficients(u);
    float block[ZT_NORM_BLOCK];
    for (int64_t at = 0; at < count; at += ZT_NORM_BLOCK) {
        int64_t n = count - at < ZT_NORM_BLOCK ? count - at : ZT_NORM_BLOCK;
        lamb_moments(c, p + at, g + at, state[0] + at, state[1] + at, block, n);
        norms[0] += zt_sum_squares(p + at, n);
        norms[1] += zt_sum_squares(block, n);
    }
}

static double lamb_ratio(const struct zt_update *u, const double norms[2]) {
    struct zt_lamb c = coefficients(u);
    return zt_lamb_ratio(&c, norms);
}

static void lamb_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    struct zt_lamb c = coefficients(u);
    (void)g;
    lamb_run(c, (float)(c.rate * (u->tensor_ratio ? *u->tensor_ratio : 1)), p, state[0], state[1], count);
}

static void lamb_prepare(const struct zt_update *u, union zt_coefficients *to) {
    to->lamb = coefficients(u);
}

const struct zt_optimizer zt_optimizer_lamb = {
    .name = "Lamb",
    .states = 2,
    .state_names = { "exp_avg", "exp_avg_sq" },
    .prepare = lamb_prepare,
    .update = lamb_update,
    .norms = lamb_norms,
    .ratio = lamb_ratio,
};
