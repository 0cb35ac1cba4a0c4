/* SGD as torch.optim.SGD:  d = g + wd p
 *                          b = mu b + (1 - dampening) d,  b = d at the first step
 *                          p = p - lr (nesterov ? d + mu b : b) */
#include "optim/row.h"

struct sgd {
    float scale, decay, lr;
    float keep, take; /* b = keep b + take d */
    float of_d, of_b; /* p = p - lr (of_d d + of_b b) */
};

static struct sgd sgd_prepare(const struct zt_update *u) {
    const struct zt_optimizer_config *o = u->config;
    bool first = u->step == 1;
    return (struct sgd){
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .lr = (float)u->lr,
        .keep = first ? 0 : (float)o->momentum,
        .take = first ? 1 : (float)(1 - o->dampening),
        .of_d = o->nesterov ? 1 : 0,
        .of_b = o->nesterov ? (float)o->momentum : 1,
    };
}

ZT_CLONES static void sgd_plain(struct sgd c, float *restrict p, const float *restrict g, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        p[i] -= c.lr * (g[i] * c.scale + c.decay * p[i]);
}

ZT_CLONES static void sgd_momentum(struct sgd c, float *restrict p, const float *restrict g, float *restrict b,
                                   int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] * c.scale + c.decay * p[i];
        float v = c.keep * b[i] + c.take * d;
        b[i] = v;
        p[i] -= c.lr * (c.of_d * d + c.of_b * v);
    }
}

static int sgd_states(const struct zt_optimizer_config *o) {
    return o->momentum != 0;
}

static void sgd_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    if (sgd_states(u->config))
        sgd_momentum(sgd_prepare(u), p, g, state[0], count);
    else
        sgd_plain(sgd_prepare(u), p, g, count);
}

const struct zt_optimizer zt_optimizer_sgd = {
    .name = "SGD",
    .states = 1,
    .states_used = sgd_states,
    .update = sgd_update,
};
