/* RMSprop of torch.optim.RMSprop (Tieleman and Hinton, 2012; centered: Graves, 2013):
 *
 *     d = g + wd p
 *     v = alpha v + (1 - alpha) d^2
 *     a = alpha a + (1 - alpha) d           centered: v - a^2 replaces v in the root
 *     u = d / (sqrt(v) + eps)
 *     b = momentum b + u                    momentum above 0: b replaces u in the last line
 *     p = p - lr u
 *
 * The states are v, then a with `centered`, then b with a momentum. */
#include "optim/rmsprop.h"

#include "optim/row.h"

#include <string.h>

struct params {
    double eps, alpha, momentum;
    bool centered;
};

static void rmsprop_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    const double momentum = u->config->momentum_moves ? u->momentum : o->momentum;
    struct zt_rmsprop c = {
        .scale = (float)u->grad_scale,
        .decay = (float)u->weight_decay,
        .lr = (float)u->lr,
        .eps = (float)o->eps,
        .alpha = (float)o->alpha,
        .take = (float)(1 - o->alpha),
        .momentum = (float)momentum,
        .centered = o->centered,
        .buffered = momentum != 0,
    };
    ZT_STORE_COEFFICIENTS(to, c);
}

ZT_CLONES static void plain(struct zt_rmsprop c, float *restrict p, const float *restrict g, float *restrict v,
                            int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_rmsprop_step(&c, &p[i], g[i], &v[i], NULL);
}

ZT_CLONES static void centered(struct zt_rmsprop c, float *restrict p, const float *restrict g, float *restrict v,
                               float *restrict a, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_rmsprop_step(&c, &p[i], g[i], &v[i], &a[i]);
}

ZT_CLONES static void with_momentum(struct zt_rmsprop c, float *restrict p, const float *restrict g, float *restrict v,
                                    float *restrict b, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_rmsprop_momentum_step(&c, &p[i], g[i], &v[i], NULL, &b[i]);
}

ZT_CLONES static void centered_with_momentum(struct zt_rmsprop c, float *restrict p, const float *restrict g,
                                             float *const state[], int64_t count) {
    float *restrict v = state[0], *restrict a = state[1], *restrict b = state[2];
    for (int64_t i = 0; i < count; i++)
        zt_rmsprop_momentum_step(&c, &p[i], g[i], &v[i], &a[i], &b[i]);
}

static void rmsprop_update(const union zt_coefficients *from, double ratio, float *p, const float *g,
                           float *const state[], int64_t count) {
    const struct zt_rmsprop c = ZT_COEFFICIENTS(struct zt_rmsprop, from);
    (void)ratio;
    if (c.centered && c.buffered)
        centered_with_momentum(c, p, g, state, count);
    else if (c.centered)
        centered(c, p, g, state[0], state[1], count);
    else if (c.buffered)
        with_momentum(c, p, g, state[0], state[1], count);
    else
        plain(c, p, g, state[0], count);
}

static int rmsprop_states(const struct zt_optimizer_config *config) {
    const struct params *o = config->params;
    return 1 + o->centered + (o->momentum != 0 || config->momentum_moves);
}

static const char *rmsprop_state_name(const struct zt_optimizer_config *config, int i) {
    const struct params *o = config->params;
    return i == 0 ? "square_avg" : i == 1 && o->centered ? "grad_avg" : "momentum_buffer";
}

static double momentum_of(const struct zt_optimizer_config *config) {
    return ((const struct params *)config->params)->momentum;
}

static const struct zt_key_row keys[] = {
    ROW_LR("1e-2"),
    ROW_EPS(OWN(struct params, eps)),
    ROW_WEIGHT_DECAY,
    ROW_MOMENTUM(OWN(struct params, momentum)),
    { .key = OPTIMIZER "alpha", NUMBER, BELOW_ONE, DEF("0.99"), OWN(struct params, alpha) },
    { .key = OPTIMIZER "centered", BOOL, DEF("false"), OWN(struct params, centered) },
    ROW_MAXIMIZE,
    ROWS_PYTHON,
    { 0 },
};

const struct zt_optimizer zt_optimizer_rmsprop = {
    .type = { .name = "RMSprop", .keys = keys, .bytes = sizeof(struct params) },
    .states = 3,
    .state_names = { "square_avg", "grad_avg", "momentum_buffer" },
    .states_used = rmsprop_states,
    .state_name = rmsprop_state_name,
    .momentum = momentum_of,
    .prepare = rmsprop_prepare,
    .update = rmsprop_update,
};
