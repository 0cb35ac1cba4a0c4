/* Lion (Chen et al., 2023):  c = b1 m + (1 - b1) g
 *                            p = p (1 - lr wd) - lr sign(c)      sign(0) = 0; a NaN stays one
 *                            m = b2 m + (1 - b2) g */
#include "optim/lion.h"

#include "optim/row.h"

#include <string.h>

static void lion_prepare(const struct zt_update *u, union zt_coefficients *to) {
    struct zt_lion c = {
        .scale = (float)u->grad_scale,
        .shrink = (float)(1 - u->lr * u->weight_decay),
        .lr = (float)u->lr,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
    };
    ZT_STORE_COEFFICIENTS(to, c);
}

ZT_CLONES static void lion_run(struct zt_lion c, float *restrict p, const float *restrict g, float *restrict m,
                               int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_lion_step(&c, &p[i], g[i], &m[i]);
}

static void lion_update(const union zt_coefficients *from, double ratio, float *p, const float *g, float *const state[],
                        int64_t count) {
    (void)ratio;
    lion_run(ZT_COEFFICIENTS(struct zt_lion, from), p, g, state[0], count);
}

static const struct zt_key_row keys[] = { ROW_LR("1e-3"), ROW_BETAS,       ROW_WEIGHT_DECAY,
                                          ROWS_PYTHON,    ROW_FP32_STATES, { 0 } };

static bool always_decouples(const struct zt_optimizer_config *config) {
    (void)config;
    return true;
}

static const char *const aliases[] = { "FusedLion", "DeepSpeedCPULion", "CPULion", NULL };

const struct zt_optimizer zt_optimizer_lion = {
    .type = { .name = "Lion", .aliases = aliases, .keys = keys },
    .states = 1,
    .state_names = { "exp_avg" },
    .decouples = always_decouples,
    .prepare = lion_prepare,
    .update = lion_update,
};
