/* SGD as torch.optim.SGD:  d = g + wd p
 *                          b = mu b + (1 - dampening) d,  b = d at the first step
 *                          p = p - lr (nesterov ? d + mu b : b) */
#include "optim/row.h"

static struct zt_sgd coefficients(const struct zt_update *u) {
    const struct zt_optimizer_config *o = u->config;
    bool first = u->step == 1;
    return (struct zt_sgd){
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .lr = (float)u->lr,
        .keep = first ? 0 : (float)o->momentum,
        .take = first ? 1 : (float)(1 - o->dampening),
        .of_d = o->nesterov ? 1 : 0,
        .of_b = o->nesterov ? (float)o->momentum : 1,
    };
}

ZT_CLONES static void sgd_plain(struct zt_sgd c, float *restrict p, const float *restrict g, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_sgd_step(&c, &p[i], g[i]);
}

ZT_CLONES static void sgd_momentum(struct zt_sgd c, float *restrict p, const float *restrict g, float *restrict b,
                                   int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_sgd_momentum_step(&c, &p[i], g[i], &b[i]);
}

static int sgd_states(const struct zt_optimizer_config *o) {
    return o->momentum != 0;
}

static void sgd_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    if (sgd_states(u->config))
        sgd_momentum(coefficients(u), p, g, state[0], count);
    else
        sgd_plain(coefficients(u), p, g, count);
}

static void sgd_prepare(const struct zt_update *u, union zt_coefficients *to) {
    to->sgd = coefficients(u);
}

const struct zt_optimizer zt_optimizer_sgd = {
    .name = "SGD",
    .states = 1,
    .state_names = { "momentum_buffer" },
    .states_used = sgd_states,
    .prepare = sgd_prepare,
    .update = sgd_update,
};
