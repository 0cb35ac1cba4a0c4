/* SGD as torch.optim.SGD:  d = g + wd p
 *                          b = mu b + (1 - dampening) d,  b = d at the first step
 *                          p = p - lr (nesterov ? d + mu b : b) */
#include "optim/sgd.h"

#include "optim/row.h"

#include <stdio.h>
#include <string.h>

struct params {
    double momentum, dampening;
    bool nesterov;
};

static void sgd_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    const double momentum = u->config->momentum_moves ? u->momentum : o->momentum;
    bool first = u->step == 1;
    struct zt_sgd c = {
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .lr = (float)u->lr,
        .keep = first ? 0 : (float)momentum,
        .take = first ? 1 : (float)(1 - o->dampening),
        .of_d = o->nesterov ? 1 : 0,
        .of_b = o->nesterov ? (float)momentum : 1,
        .buffered = momentum != 0,
    };
    ZT_STORE_COEFFICIENTS(to, c);
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

static void sgd_update(const union zt_coefficients *from, double ratio, float *p, const float *g, float *const state[],
                       int64_t count) {
    const struct zt_sgd c = ZT_COEFFICIENTS(struct zt_sgd, from);
    (void)ratio;
    if (c.buffered)
        sgd_momentum(c, p, g, state[0], count);
    else
        sgd_plain(c, p, g, count);
}

static int sgd_states(const struct zt_optimizer_config *config) {
    const struct params *o = config->params;
    return o->momentum != 0 || config->momentum_moves;
}

static double momentum_of(const struct zt_optimizer_config *config) {
    return ((const struct params *)config->params)->momentum;
}

static bool sgd_fits(const void *params, struct zt_key_problem *problem) {
    const struct params *o = params;
    if (!o->nesterov || (o->momentum > 0 && o->dampening == 0))
        return true;
    problem->key = OPTIMIZER "nesterov";
    snprintf(problem->text, sizeof problem->text, "true needs momentum > 0 and dampening 0");
    return false;
}

static const struct zt_key_row keys[] = {
    ROW_LR("1e-3"),
    ROW_WEIGHT_DECAY,
    ROW_MOMENTUM(OWN(struct params, momentum)),
    { .key = OPTIMIZER "dampening", NUMBER, ANY_NUMBER, DEF("0"), OWN(struct params, dampening) },
    { .key = OPTIMIZER "nesterov", BOOL, DEF("false"), OWN(struct params, nesterov) },
    ROW_MAXIMIZE,
    ROWS_PYTHON,
    { 0 },
};

const struct zt_optimizer zt_optimizer_sgd = {
    .type = { .name = "SGD", .keys = keys, .bytes = sizeof(struct params), .fits = sgd_fits },
    .states = 1,
    .state_names = { "momentum_buffer" },
    .states_used = sgd_states,
    .momentum = momentum_of,
    .prepare = sgd_prepare,
    .update = sgd_update,
};
