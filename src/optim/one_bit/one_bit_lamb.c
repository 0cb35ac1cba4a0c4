/* 1-bit LAMB (Li et al., 2021, arXiv 2104.06069), as DeepSpeed 0.16 has it: no bias correction.
 *
 * Updates 1 .. freeze_step, with reduced gradients:
 *
 *     m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2        u = m / (sqrt(v) + eps) + wd p
 *     r = |p| / |u| within [min_coeff, max_coeff], 1 where a norm is 0
 *     p = p - lr r u        average = coeff_beta average + (1 - coeff_beta) r        of each tensor
 *
 * Then the momenta of all tensors together are averaged with one scale, each as a multiple of the magnitude s that it
 * had at freeze_step (root of its mean square), and v stays:
 *
 *     m' = s compressed mean over ranks of (b1 m + (1 - b1) own g) / s
 *     d = (m' - b1 m) / (1 - b1)        w = b2 w + (1 - b2) d^2, from v on        u = m' / (sqrt(v) + eps) + wd p
 *     f = max (sqrt(v) + eps) / (sqrt(w) + eps), with decay f k + 1 - k, k = |m' / (sqrt(v) + eps)| / |u| up to 1,
 *         within [factor_min, factor_max] and the factor before times 1 -+ factor_threshold
 *     p = p - lr average f u
 *
 * DeepSpeed multiplies all of s by one number, which cancels. Its first call only allocates its states; here it is an
 * update like the others. A tensor whose momentum is zero at freeze_step keeps it; DeepSpeed divides by zero there. So
 * does an element whose variance is zero, as if an exp_avg_mask of DeepSpeed named it. */
#include "optim/one_bit/one_bit_lamb.h"

#include "optim/one_bit/keys.h"
#include "optim/row.h"

#include <stdio.h>
#include <string.h>

struct params {
    double eps, max_coeff, min_coeff, coeff_beta, factor_max, factor_min, factor_threshold;
    int64_t freeze_step;
};

static struct zt_sharing one_bit_lamb_sharing(const struct zt_optimizer_config *config, int64_t update) {
    const bool frozen = update > ((const struct params *)config->params)->freeze_step;
    return (struct zt_sharing){ .reduced = !frozen, .compressed = frozen, .lrs_since = update };
}

static void one_bit_lamb_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    struct zt_one_bit_lamb c = {
        .scale = (float)u->grad_scale,
        .gain = (float)u->ranks,
        .decay = (float)u->weight_decay,
        .lr = (float)u->lr,
        .eps = (float)o->eps,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
        .frozen = u->step > o->freeze_step,
        .last = u->step == o->freeze_step,
        .coeff_beta = (float)o->coeff_beta,
        .most = (float)o->max_coeff,
        .least = (float)o->min_coeff,
        .factor_most = (float)o->factor_max,
        .factor_least = (float)o->factor_min,
        .threshold = (float)o->factor_threshold,
    };
    ZT_STORE_COEFFICIENTS(to, c);
}

static void one_bit_lamb_pack(const union zt_coefficients *from, const struct zt_slice *s) {
    const struct zt_one_bit_lamb c = ZT_COEFFICIENTS(struct zt_one_bit_lamb, from);
    for (int64_t i = 0; c.frozen && i < s->count; i++)
        s->g[i] = zt_one_bit_lamb_pack(&c, s->trust, s->g[i], s->state[0][i]);
}

/* Sums of the squares of the terms of a block. */
static void add_block(const struct zt_one_bit_lamb *c, const struct zt_slice *s, int64_t at, int64_t count,
                      struct zt_trust_norms *to) {
    float direction[ZT_NORM_BLOCK], moment[ZT_NORM_BLOCK];
    float *m = s->state[0] + at, *v = s->state[1] + at, *fresh = s->state[2] + at;
    for (int64_t i = 0; i < count; i++) {
        const struct zt_one_bit_lamb_terms t = zt_one_bit_lamb_moments(
            c, s->trust, s->p[at + i], s->g[at + i], (struct zt_one_bit_lamb_states){ &m[i], &v[i], &fresh[i] });
        direction[i] = t.direction;
        moment[i] = t.moment;
        to->most = (double)t.quotient > to->most ? (double)t.quotient : to->most;
    }
    to->weights += zt_sum_squares(s->p + at, count);
    to->directions += zt_sum_squares(direction, count);
    to->moments += zt_sum_squares(moment, count);
    to->count += (double)count;
}

static void one_bit_lamb_norms(const union zt_coefficients *from, const struct zt_slice *s,
                               struct zt_trust_norms *norms) {
    const struct zt_one_bit_lamb c = ZT_COEFFICIENTS(struct zt_one_bit_lamb, from);
    for (int64_t at = 0; at < s->count; at += ZT_NORM_BLOCK)
        add_block(&c, s, at, s->count - at < ZT_NORM_BLOCK ? s->count - at : ZT_NORM_BLOCK, norms);
}

static void one_bit_lamb_trust(const union zt_coefficients *from, const struct zt_trust_norms *norms,
                               struct zt_trust *trust) {
    const struct zt_one_bit_lamb c = ZT_COEFFICIENTS(struct zt_one_bit_lamb, from);
    zt_one_bit_lamb_trust(&c, norms, trust);
}

ZT_CLONES static void one_bit_lamb_apply_loop(struct zt_one_bit_lamb c, float rate, float *restrict p,
                                              const float *restrict m, const float *restrict v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_one_bit_lamb_apply(&c, rate, &p[i], m[i], v[i]);
}

static void one_bit_lamb_update(const union zt_coefficients *from, double ratio, float *p, const float *g,
                                float *const state[], int64_t count) {
    const struct zt_one_bit_lamb c = ZT_COEFFICIENTS(struct zt_one_bit_lamb, from);
    (void)g;
    one_bit_lamb_apply_loop(c, c.lr * (float)ratio, p, state[0], state[1], count);
}

static bool one_bit_lamb_fits(const void *params, struct zt_key_problem *problem) {
    const struct params *o = params;
    const bool ratio = o->min_coeff <= o->max_coeff;
    if (ratio && o->factor_min <= o->factor_max)
        return true;
    problem->key = ratio ? OPTIMIZER "factor_min" : OPTIMIZER "min_coeff";
    snprintf(problem->text, sizeof problem->text, "%g is above %s %g", ratio ? o->factor_min : o->min_coeff,
             ratio ? "factor_max" : "max_coeff", ratio ? o->factor_max : o->max_coeff);
    return false;
}

static const struct zt_key_row keys[] = {
    ROWS_ONE_BIT_ADAM(OWN(struct params, eps)),
    ROW_MAX_COEFF(OWN(struct params, max_coeff)),
    ROW_MIN_COEFF(OWN(struct params, min_coeff)),
    ROW_FREEZE_STEP(OWN(struct params, freeze_step)),
    ROWS_ONE_BIT,
    { .key = OPTIMIZER "coeff_beta", NUMBER, BELOW_ONE, DEF("0.9"), OWN(struct params, coeff_beta) },
    { .key = OPTIMIZER "factor_max", NUMBER, POSITIVE, DEF("4"), OWN(struct params, factor_max) },
    { .key = OPTIMIZER "factor_min", NUMBER, FROM(0), DEF("0.5"), OWN(struct params, factor_min) },
    { .key = OPTIMIZER "factor_threshold", NUMBER, FROM(0), DEF("0.1"), OWN(struct params, factor_threshold) },
    { 0 },
};

static const struct zt_one_bit one_bit = { .fused = true,
                                           .sharing = one_bit_lamb_sharing,
                                           .pack = one_bit_lamb_pack,
                                           .norms = one_bit_lamb_norms,
                                           .trust = one_bit_lamb_trust };

const struct zt_optimizer zt_optimizer_one_bit_lamb = {
    .type = { .name = "OneBitLamb",
              .keys = keys,
              .bytes = sizeof(struct params),
              .fits = one_bit_lamb_fits,
              .dynamic_scale = true,
              .replicated = true },
    .states = 3,
    .state_names = { "exp_avg", "exp_avg_sq", "exp_avg_sq_fresh" },
    .prepare = one_bit_lamb_prepare,
    .update = one_bit_lamb_update,
    .one_bit = &one_bit,
};
