/* Lion (Chen et al., 2023):  c = b1 m + (1 - b1) g
 *                            p = p (1 - lr wd) - lr sign(c)      sign(0) = 0; a NaN stays one
 *                            m = b2 m + (1 - b2) g */
#include "optim/row.h"

struct lion {
    float scale, shrink, lr; /* shrink = 1 - lr wd */
    float b1, a1, b2, a2;    /* a = 1 - b */
};

static struct lion lion_prepare(const struct zt_update *u) {
    return (struct lion){
        .scale = (float)u->grad_scale,
        .shrink = (float)(1 - u->lr * u->weight_decay),
        .lr = (float)u->lr,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
    };
}

ZT_CLONES static void lion_run(struct lion c, float *restrict p, const float *restrict g, float *restrict m,
                               int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] * c.scale;
        float mix = c.b1 * m[i] + c.a1 * d;
        float sign = mix > 0 ? 1.0f : mix < 0 ? -1.0f : mix;
        p[i] = p[i] * c.shrink - c.lr * sign;
        m[i] = c.b2 * m[i] + c.a2 * d;
    }
}

static void lion_update(const struct zt_update *u, float *p, const float *g, float *const state[], int64_t count) {
    lion_run(lion_prepare(u), p, g, state[0], count);
}

const struct zt_optimizer zt_optimizer_lion = {
    .name = "Lion", .states = 1, .state_names = { "exp_avg" }, .update = lion_update
};
