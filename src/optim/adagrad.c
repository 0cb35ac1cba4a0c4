/* Adagrad as torch.optim.Adagrad (and DeepSpeed's GPU path):  d = g + wd p
 *                                                             v = v + d^2, from initial_accumulator_value
 *                                                             p = p - lr / (1 + (t - 1) lr_decay) d / (sqrt(v) + eps)
 */
#include "optim/row.h"

#include <math.h>

static struct zt_adagrad coefficients(const struct zt_update *u) {
    const struct zt_optimizer_config *o = u->config;
    return (struct zt_adagrad){
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .lr = (float)(u->lr / (1 + (double)(u->step - 1) * o->lr_decay)),
        .eps = (float)o->eps,
        .start = u->step == 1 ? (float)o->initial_accumulator_value : 0,
    };
}

ZT_CLONES static void adagrad_run(struct zt_adagrad c, float *restrict p, const float *restrict g, float *restrict v,
                                  int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_adagrad_step(&c, &p[i], g[i], &v[i]);
}

static void adagrad_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    adagrad_run(coefficients(u), p, g, state[0], count);
}

static void adagrad_prepare(const struct zt_update *u, union zt_coefficients *to) {
    to->adagrad = coefficients(u);
}

const struct zt_optimizer zt_optimizer_adagrad = {
    .name = "Adagrad", .states = 1, .state_names = { "sum" }, .prepare = adagrad_prepare, .update = adagrad_update
};
