/* Lion (Chen et al., 2023):  c = b1 m + (1 - b1) g
 *                            p = p (1 - lr wd) - lr sign(c)      sign(0) = 0; a NaN stays one
 *                            m = b2 m + (1 - b2) g */
#include "optim/row.h"

static struct zt_lion coefficients(const struct zt_update *u) {
    return (struct zt_lion){
        .scale = (float)u->grad_scale,
        .shrink = (float)(1 - u->lr * u->weight_decay),
        .lr = (float)u->lr,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
    };
}

ZT_CLONES static void lion_run(struct zt_lion c, float *restrict p, const float *restrict g, float *restrict m,
                               int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_lion_step(&c, &p[i], g[i], &m[i]);
}

static void lion_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    lion_run(coefficients(u), p, g, state[0], count);
}

static void lion_prepare(const struct zt_update *u, union zt_coefficients *to) {
    to->lion = coefficients(u);
}

const struct zt_optimizer zt_optimizer_lion = {
    .name = "Lion", .states = 1, .state_names = { "exp_avg" }, .prepare = lion_prepare, .update = lion_update
};
