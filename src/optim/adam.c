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
    bool torch_adam; /* the formula is the same; the default of weight_decay is not */
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

/* torch.optim.AdamW decays by 0.01 where nothing is given, torch.optim.Adam and DeepSpeed's own kernels by 0. */
static void adam_settle(const struct zt_settling *s) {
    struct zt_optimizer_config *c = &s->config->optimizer;
    const struct params *o = c->params;
    if (!o->torch_adam)
        return;
    if (o->adam_w_mode && !s->given(s, OPTIMIZER "weight_decay"))
        c->weight_decay = 0.01;
    else
        s->lists(s, OPTIMIZER "torch_adam = true (the same formula and weight_decay)");
}

static bool adam_decouples(const struct zt_optimizer_config *config) {
    return ((const struct params *)config->params)->adam_w_mode;
}

#define KEYS(...)                                                                                                      \
    {                                                                                                                  \
        ROW_LR("1e-3"), ROW_BETAS, ROW_EPS(OWN(struct params, eps)), ROW_WEIGHT_DECAY, ROW_MAXIMIZE,                   \
            ROW_BIAS_CORRECTION(OWN(struct params, bias_correction)), ROW_AMSGRAD,                                     \
            { .key = OPTIMIZER "adam_w_mode", BOOL, DEF("true"), OWN(struct params, adam_w_mode), __VA_ARGS__ },       \
            { .key = OPTIMIZER "adamw_mode", BOOL, .same = OPTIMIZER "adam_w_mode" },                                  \
            { .key = OPTIMIZER "torch_adam", BOOL, DEF("false"), OWN(struct params, torch_adam) }, ROWS_PYTHON,        \
            ROW_FP32_STATES, { 0 },                                                                                    \
    }
static const struct zt_key_row adam_keys[] = KEYS(.always = NULL);
static const struct zt_key_row adamw_keys[] = KEYS(.always = "true", .why = "AdamW always decays decoupled");

/* The classes of DeepSpeed behind the type Adam. */
static const char *const adam_aliases[] = { "FusedAdam", "DeepSpeedCPUAdam", "CPUAdam", NULL };

#define STEP                                                                                                           \
    .states = 2, .state_names = { "exp_avg", "exp_avg_sq" }, .decouples = adam_decouples, .prepare = adam_prepare,     \
    .update = adam_update
#define PARAMS .bytes = sizeof(struct params), .settle = adam_settle

const struct zt_optimizer zt_optimizer_adam = {
    .type = { .name = "Adam", .aliases = adam_aliases, .keys = adam_keys, PARAMS }, STEP
};
const struct zt_optimizer zt_optimizer_adamw = { .type = { .name = "AdamW", .keys = adamw_keys, PARAMS }, STEP };
