/* Adagrad of torch.optim.Adagrad (and DeepSpeed on GPUs):    d = g + wd p
 *                                                             v = v + d^2, from initial_accumulator_value
 *                                                             p = p - lr / (1 + (t - 1) lr_decay) d / (sqrt(v) + eps)
 */
#include "optim/adagrad.h"

#include "optim/row.h"

#include <string.h>

struct params {
    double eps, lr_decay, initial_accumulator_value;
};

static void adagrad_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    struct zt_adagrad c = {
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .lr = (float)(u->lr / (1 + (double)(u->step - 1) * o->lr_decay)),
        .eps = (float)o->eps,
        .start = u->step == 1 ? (float)o->initial_accumulator_value : 0,
    };
    ZT_STORE_COEFFICIENTS(to, c);
}

ZT_CLONES static void adagrad_run(struct zt_adagrad c, float *restrict p, const float *restrict g, float *restrict v,
                                  int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_adagrad_step(&c, &p[i], g[i], &v[i]);
}

static void adagrad_update(const union zt_coefficients *from, double ratio, float *p, const float *g,
                           float *const state[], int64_t count) {
    (void)ratio;
    adagrad_run(ZT_COEFFICIENTS(struct zt_adagrad, from), p, g, state[0], count);
}

static double no_momentum(const struct zt_optimizer_config *config) {
    (void)config;
    return 0;
}

static const struct zt_key_row keys[] = {
    ROW_LR("1e-2"),
    { .key = OPTIMIZER "eps", NUMBER, FROM(0), DEF("1e-10"), AUTO("1e-8", HF), OWN(struct params, eps) },
    ROW_WEIGHT_DECAY,
    ROW_MAXIMIZE,
    ROWS_PYTHON,
    ROW_FP32_STATES,
    { .key = OPTIMIZER "lr_decay", NUMBER, FROM(0), DEF("0"), OWN(struct params, lr_decay) },
    { .key = OPTIMIZER "initial_accumulator_value",
      NUMBER,
      FROM(0),
      DEF("0"),
      OWN(struct params, initial_accumulator_value) },
    { 0 },
};

static const char *const aliases[] = { "DeepSpeedCPUAdagrad", "CPUAdagrad", NULL };

const struct zt_optimizer zt_optimizer_adagrad = {
    .type = { .name = "Adagrad",
              .aliases = aliases,
              .keys = keys,
              .bytes = sizeof(struct params),
              .no_momentum = true },
    .states = 1,
    .state_names = { "sum" },
    .momentum = no_momentum,
    .prepare = adagrad_prepare,
    .update = adagrad_update,
};
