/* Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019) with DeepSpeed's choice of weight decay:
 *
 *     m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
 *     p = p - lr ( m/(1 - b1^t) / (sqrt(v/(1 - b2^t)) + eps) + wd p )          decoupled: the default of both rows
 *
 * or, for the row Adam with adam_w_mode false, g + wd p in place of g and no decay in the last line. Both are one loop
 * in which one of the two decay factors is 0. */
#include "optim/row.h"

#include <math.h>

static struct zt_adam coefficients(const struct zt_update *u, bool decoupled) {
    bool correct = u->config->bias_correction;
    return (struct zt_adam){
        .scale = (float)u->grad_scale,
        .l2 = decoupled ? 0 : (float)u->weight_decay,
        .decay = decoupled ? (float)u->weight_decay : 0,
        .lr = (float)u->lr,
        .eps = (float)u->config->eps,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
        .m_factor = correct ? (float)(1 / (1 - pow(u->beta1, (double)u->step))) : 1,
        .v_factor = correct ? (float)(1 / sqrt(1 - pow(u->beta2, (double)u->step))) : 1,
    };
}

ZT_CLONES static void adam_run(struct zt_adam c, float *restrict p, const float *restrict g, float *restrict m,
                               float *restrict v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_adam_step(&c, &p[i], g[i], &m[i], &v[i]);
}

static void adam_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    adam_run(coefficients(u, u->config->adam_w_mode), p, g, state[0], state[1], count);
}

static void adamw_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    adam_run(coefficients(u, true), p, g, state[0], state[1], count);
}

static void adam_prepare(const struct zt_update *u, union zt_coefficients *to) {
    to->adam = coefficients(u, u->config->adam_w_mode);
}

static void adamw_prepare(const struct zt_update *u, union zt_coefficients *to) {
    to->adam = coefficients(u, true);
}

#define MOMENTS .states = 2, .state_names = { "exp_avg", "exp_avg_sq" }

const struct zt_optimizer zt_optimizer_adam = {
    .name = "Adam", MOMENTS, .prepare = adam_prepare, .update = adam_update
};
const struct zt_optimizer zt_optimizer_adamw = {
    .name = "AdamW", MOMENTS, .prepare = adamw_prepare, .update = adamw_update
};
