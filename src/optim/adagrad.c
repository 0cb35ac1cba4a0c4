/* Adagrad as torch.optim.Adagrad (and DeepSpeed's GPU path):  d = g + wd p
 *                                                             v = v + d^2, from initial_accumulator_value
 *                                                             p = p - lr / (1 + (t - 1) lr_decay) d / (sqrt(v) + eps)
 */
#include "optim/row.h"

#include <math.h>

struct adagrad {
    float scale, decay, lr, eps;
    float start; /* added to v before the first step: state begins at zero */
};

static struct adagrad adagrad_prepare(const struct zt_update *u) {
    const struct zt_optimizer_config *o = u->config;
    return (struct adagrad){
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .lr = (float)(u->lr / (1 + (double)(u->step - 1) * o->lr_decay)),
        .eps = (float)o->eps,
        .start = u->step == 1 ? (float)o->initial_accumulator_value : 0,
    };
}

ZT_CLONES static void adagrad_run(struct adagrad c, float *restrict p, const float *restrict g, float *restrict v,
                                  int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] * c.scale + c.decay * p[i];
        float vi = (v[i] + c.start) + d * d;
        v[i] = vi;
        p[i] -= c.lr * (d / (sqrtf(vi) + c.eps));
    }
}

static void adagrad_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    adagrad_run(adagrad_prepare(u), p, g, state[0], count);
}

const struct zt_optimizer zt_optimizer_adagrad = {
    .name = "Adagrad", .states = 1, .state_names = { "sum" }, .update = adagrad_update
};
