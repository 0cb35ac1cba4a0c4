/* Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019) with DeepSpeed's weight decay:
 *
 *     m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
 *     p = p - lr ( m/(1 - b1^t) / (sqrt(v/(1 - b2^t)) + eps) + wd p )          decoupled: the default of both rows
 *
 * or, for the row Adam with adam_w_mode false, g + wd p in place of g and no decay in the last line. One loop does
 * both: one of its two decay factors is 0. */
#include "optim/adam.h"

#include "optim/row.h"

#include <math.h>
#include <string.h>

struct params {
    double eps;
    bool bias_correction, adam_w_mode;
};

static void adam_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    bool correct = o->bias_correction, decoupled = o->adam_w_mode;
    struct zt_adam c = {
        .scale = (float)u->grad_scale,
        .l2 = decoupled ? 0 : (float)u->weight_decay,
        .decay = decoupled ? (float)u->weight_decay : 0,
        .lr = (float)u->lr,
        .eps = (float)o->eps,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
        .m_factor = correct ? (float)(1 / (1 - pow(u->beta1, (double)u->step))) : 1,
        .v_factor = correct ? (float)(1 / sqrt(1 - pow(u->beta2, (double)u->step))) : 1,
    };
    ZT_STORE_COEFFICIENTS(to, c);
}

ZT_CLONES static void adam_run(struct zt_adam c, float *restrict p, const float *restrict g, float *restrict m,
                               float *restrict v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_adam_step(&c, &p[i], g[i], &m[i], &v[i]);
}

static void adam_update(const union zt_coefficients *from, double ratio, float *p, const float *g, float *const state[],
                        int64_t count) {
    (void)ratio;
    adam_run(ZT_COEFFICIENTS(struct zt_adam, from), p, g, state[0], state[1], count);
}

#define KEYS(...)                                                                                                      \
    {                                                                                                                  \
        ROW_LR("1e-3"), ROW_BETAS, ROW_EPS(OWN(struct params, eps)), ROW_WEIGHT_DECAY, ROW_MAXIMIZE,                   \
            ROW_BIAS_CORRECTION(OWN(struct params, bias_correction)), ROW_AMSGRAD,                                     \
            { .key = OPTIMIZER "adam_w_mode", BOOL, DEF("true"), OWN(struct params, adam_w_mode), __VA_ARGS__ },       \
            { .key = OPTIMIZER "torch_adam", BOOL, ACCEPT("the same formula; weight_decay stays 0 unless given") },    \
            ROWS_PYTHON, ROW_FP32_STATES, { 0 },                                                                       \
    }
static const struct zt_key_row adam_keys[] = KEYS(.always = NULL);
static const struct zt_key_row adamw_keys[] = KEYS(.always = "true", .why = "AdamW always decays decoupled");

#define STEP .states = 2, .state_names = { "exp_avg", "exp_avg_sq" }, .prepare = adam_prepare, .update = adam_update

const struct zt_optimizer zt_optimizer_adam = {
    .type = { .name = "Adam", .keys = adam_keys, .bytes = sizeof(struct params) }, STEP
};
const struct zt_optimizer zt_optimizer_adamw = {
    .type = { .name = "AdamW", .keys = adamw_keys, .bytes = sizeof(struct params) }, STEP
};
