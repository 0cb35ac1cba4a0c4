/* 0/1 Adam (Lu et al., 2022, arXiv 2202.06009), as DeepSpeed 0.16 has it: no bias correction, decoupled decay.
 *
 * Updates t = 1 .. var_freeze_step. The variance is updated where t is a multiple of an interval, which is 1 at first
 * and doubles after every var_update_scaler updates of the variance:
 *
 *     variance    g is reduced:  v = b2 v + (1 - b2) g^2        m = b1 m + (1 - b1) g
 *     gradient    m = b1 m + (1 - b1) compressed mean over ranks of own g
 *     both        p = p - lr ( m / (sqrt(v) + eps) + wd p )
 *
 * Later updates are local, and synchronize where t is a multiple of another interval, which is 1 at first and doubles
 * after every local_step_scaler updates up to local_step_clipper; L is the sum of the learning rates since then:
 *
 *     local       m = b1 m + (1 - b1) own g        d = lr ( m / (sqrt(v) + eps) + wd p )        p = p - d        u = u
 * - d sync        local; p = p - u; c = compressed mean of u (sqrt(v) + eps); m = -c / L; p = p + c / (sqrt(v) + eps);
 * u = 0
 *
 * Elements whose variance is zero have had no gradient in an update of it. Gradient updates move them by decay alone,
 * local ones not at all, as if an exp_avg_mask of DeepSpeed named them. A synchronization makes the weights of the
 * ranks equal but for rounding. The errors of the compression are zero at the first local update. DeepSpeed's first
 * call only allocates its states; here it is an update like the others. With one rank DeepSpeed leaves m as it is in a
 * gradient update; here the mean of one rank is its own gradient. */
#include "optim/one_bit/zero_one_adam.h"

#include "optim/one_bit/keys.h"
#include "optim/row.h"

#include <string.h>

struct params {
    double eps;
    int64_t var_freeze_step, var_update_scaler, local_step_scaler, local_step_clipper;
};

enum { MOST_DOUBLINGS = 62 };

/* Whether update t, up to var_freeze_step, updates the variance. */
static bool updates_variance(const struct params *o, int64_t t) {
    int64_t interval = 1, end = 0; /* end: the last update of the interval before */
    for (int i = 0; i < MOST_DOUBLINGS; i++, interval *= 2) {
        int64_t last; /* update of the variance with this interval */
        if (__builtin_mul_overflow(end / interval + o->var_update_scaler, interval, &last) || t <= last)
            break;
        end = last;
    }
    return t % interval == 0;
}

/* Whether update t, behind var_freeze_step, synchronizes. */
static bool synchronizes(const struct params *o, int64_t t) {
    const int64_t doublings = (t - o->var_freeze_step - 1) / o->local_step_scaler;
    int64_t interval = doublings < MOST_DOUBLINGS ? (int64_t)1 << doublings : INT64_MAX;
    interval = interval < o->local_step_clipper ? interval : o->local_step_clipper;
    return t % interval == 0;
}

static enum zt_zero_one_kind kind_of(const struct params *o, int64_t t) {
    if (t <= o->var_freeze_step)
        return updates_variance(o, t) ? ZT_ZERO_ONE_VARIANCE : ZT_ZERO_ONE_GRADIENT;
    return synchronizes(o, t) ? ZT_ZERO_ONE_SYNC : ZT_ZERO_ONE_LOCAL;
}

static struct zt_sharing zero_one_adam_sharing(const struct zt_optimizer_config *config, int64_t update) {
    const struct params *o = config->params;
    const enum zt_zero_one_kind kind = kind_of(o, update);
    struct zt_sharing s = { .reduced = kind == ZT_ZERO_ONE_VARIANCE,
                            .compressed = kind == ZT_ZERO_ONE_GRADIENT || kind == ZT_ZERO_ONE_SYNC,
                            .clears = update - 1 == o->var_freeze_step,
                            .apart = update > o->var_freeze_step,
                            .lrs_since = update };
    while (kind == ZT_ZERO_ONE_SYNC && s.lrs_since - 1 > o->var_freeze_step && !synchronizes(o, s.lrs_since - 1))
        s.lrs_since--;
    return s;
}

static void zero_one_adam_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    struct zt_zero_one_adam c = {
        .scale = (float)u->grad_scale,
        .gain = (float)u->ranks,
        .decay = (float)u->weight_decay,
        .lr = (float)u->lr,
        .eps = (float)o->eps,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
        .lr_sum = (float)u->lr_sum,
        .kind = kind_of(o, u->step),
    };
    ZT_STORE_COEFFICIENTS(to, c);
}

ZT_CLONES static void zero_one_adam_pack_loop(struct zt_zero_one_adam c, const struct zt_slice *s) {
    float *restrict p = s->p, *restrict g = s->g, *restrict m = s->state[0], *restrict u = s->state[2];
    const float *restrict v = s->state[1];
    for (int64_t i = 0; i < s->count; i++)
        g[i] = zt_zero_one_adam_pack(&c, &p[i], g[i], &m[i], v[i], &u[i]);
}

static void zero_one_adam_pack(const union zt_coefficients *from, const struct zt_slice *s) {
    const struct zt_zero_one_adam c = ZT_COEFFICIENTS(struct zt_zero_one_adam, from);
    if (c.kind == ZT_ZERO_ONE_GRADIENT || c.kind == ZT_ZERO_ONE_SYNC)
        zero_one_adam_pack_loop(c, s);
}

ZT_CLONES static void zero_one_adam_step_loop(struct zt_zero_one_adam c, float *restrict p, const float *restrict g,
                                              float *const state[], int64_t count) {
    float *restrict m = state[0], *restrict v = state[1], *restrict u = state[2];
    for (int64_t i = 0; i < count; i++)
        zt_zero_one_adam_step(&c, &p[i], g[i], &m[i], &v[i], &u[i]);
}

static void zero_one_adam_update(const union zt_coefficients *from, double ratio, float *p, const float *g,
                                 float *const state[], int64_t count) {
    (void)ratio;
    zero_one_adam_step_loop(ZT_COEFFICIENTS(struct zt_zero_one_adam, from), p, g, state, count);
}

static const struct zt_key_row keys[] = {
    ROWS_ONE_BIT_ADAM(OWN(struct params, eps)),
    ROWS_ONE_BIT,
    { .key = OPTIMIZER "var_freeze_step", INT(1), DEF("100000"), OWN(struct params, var_freeze_step) },
    { .key = OPTIMIZER "var_update_scaler", INT(1), DEF("16"), OWN(struct params, var_update_scaler) },
    { .key = OPTIMIZER "local_step_scaler", INT(1), DEF("32678"), OWN(struct params, local_step_scaler) },
    { .key = OPTIMIZER "local_step_clipper", INT(1), DEF("16"), OWN(struct params, local_step_clipper) },
    { 0 },
};

static const struct zt_one_bit one_bit = { .own_states = true,
                                           .sharing = zero_one_adam_sharing,
                                           .pack = zero_one_adam_pack };

const struct zt_optimizer zt_optimizer_zero_one_adam = {
    .type = { .name = "ZeroOneAdam", .keys = keys, .bytes = sizeof(struct params), .replicated = true },
    .states = 3,
    .state_names = { "exp_avg", "exp_avg_sq", "momentum_accumulator" },
    .prepare = zero_one_adam_prepare,
    .update = zero_one_adam_update,
    .one_bit = &one_bit,
};
