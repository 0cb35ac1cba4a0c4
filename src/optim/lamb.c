/* LAMB (You et al., 2020) in the form of DeepSpeed's fused kernel: moments without correction, a trust ratio per
 * tensor, the bias corrections in the step size.
 *
 *     u = m / (sqrt(v) + eps) + wd p              or m / sqrt(v + eps) + wd p with eps_inside_sqrt
 *     r = |p| / |u| within [min_coeff, max_coeff], 1 where a norm is 0
 *     p = p - lr sqrt(1 - b2^t) / (1 - b1^t) r u
 *
 * norms() advances the moments; update() computes u again from them, which is cheaper than storing it. */
#include "optim/lamb.h"

#include "optim/row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct params {
    double eps, max_coeff, min_coeff;
    bool bias_correction, eps_inside_sqrt;
};

static void lamb_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    double correction = 1;
    if (o->bias_correction)
        correction = sqrt(1 - pow(u->beta2, (double)u->step)) / (1 - pow(u->beta1, (double)u->step));
    struct zt_lamb c = {
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
    ZT_STORE_COEFFICIENTS(to, c);
}

/* state: m and v, which are advanced. u: the update without the trust ratio. */
ZT_CLONES static void lamb_moments(struct zt_lamb c, const float *restrict p, const float *restrict g,
                                   float *const state[2], float *restrict u, int64_t count) {
    float *restrict m = state[0], *restrict v = state[1];
    for (int64_t i = 0; i < count; i++)
        u[i] = zt_lamb_moments(&c, p[i], g[i], &m[i], &v[i]);
}

ZT_CLONES static void lamb_run(struct zt_lamb c, float lr, float *restrict p, const float *restrict m,
                               const float *restrict v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_lamb_apply(&c, lr, &p[i], m[i], v[i]);
}

static void lamb_norms(const union zt_coefficients *from, const float *p, const float *g, float *const state[],
                       int64_t count, double norms[2]) {
    const struct zt_lamb c = ZT_COEFFICIENTS(struct zt_lamb, from);
    float block[ZT_NORM_BLOCK];
    for (int64_t at = 0; at < count; at += ZT_NORM_BLOCK) {
        int64_t n = count - at < ZT_NORM_BLOCK ? count - at : ZT_NORM_BLOCK;
        lamb_moments(c, p + at, g + at, (float *const[]){ state[0] + at, state[1] + at }, block, n);
        norms[0] += zt_sum_squares(p + at, n);
        norms[1] += zt_sum_squares(block, n);
    }
}

static double lamb_ratio(const union zt_coefficients *from, const double norms[2]) {
    const struct zt_lamb c = ZT_COEFFICIENTS(struct zt_lamb, from);
    return zt_lamb_ratio(&c, norms);
}

static void lamb_update(const union zt_coefficients *from, double ratio, float *p, const float *g, float *const state[],
                        int64_t count) {
    const struct zt_lamb c = ZT_COEFFICIENTS(struct zt_lamb, from);
    (void)g;
    lamb_run(c, (float)(c.rate * ratio), p, state[0], state[1], count);
}

static bool lamb_fits(const void *params, struct zt_key_problem *problem) {
    const struct params *o = params;
    if (o->min_coeff <= o->max_coeff)
        return true;
    problem->key = OPTIMIZER "min_coeff";
    snprintf(problem->text, sizeof problem->text, "%g is above max_coeff %g", o->min_coeff, o->max_coeff);
    return false;
}

static const struct zt_key_row keys[] = {
    ROW_LR("1e-3"),
    ROW_BETAS,
    ROW_EPS(OWN(struct params, eps)),
    ROW_WEIGHT_DECAY,
    ROW_BIAS_CORRECTION(OWN(struct params, bias_correction)),
    ROW_AMSGRAD,
    ROWS_PYTHON,
    ROW_MAX_COEFF(OWN(struct params, max_coeff)),
    ROW_MIN_COEFF(OWN(struct params, min_coeff)),
    ROW_EPS_INSIDE(OWN(struct params, eps_inside_sqrt)),
    { 0 },
};

static bool always_decouples(const struct zt_optimizer_config *config) {
    (void)config;
    return true;
}

static const char *const aliases[] = { "FusedLamb", NULL };

const struct zt_optimizer zt_optimizer_lamb = {
    .type = { .name = "Lamb",
              .aliases = aliases,
              .keys = keys,
              .bytes = sizeof(struct params),
              .fits = lamb_fits,
              .dynamic_scale = true },
    .states = 2,
    .state_names = { "exp_avg", "exp_avg_sq" },
    .decouples = always_decouples,
    .prepare = lamb_prepare,
    .update = lamb_update,
    .norms = lamb_norms,
    .ratio = lamb_ratio,
};
