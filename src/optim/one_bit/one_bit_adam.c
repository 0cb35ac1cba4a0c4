/* 1-bit Adam (Tang et al., 2021, arXiv 2102.02888), as DeepSpeed 0.16 has it: no bias correction, decoupled decay.
 *
 *     updates 1 .. freeze_step    g is reduced:  m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
 *     later ones                  m = compressed mean over ranks of (b1 m + (1 - b1) own g)        v stays
 *     all                         p = p - lr ( m / (sqrt(v) + eps) + wd p )
 *
 * Elements whose variance is zero at freeze_step have had no gradient. They keep a momentum of zero, as if an
 * exp_avg_mask of DeepSpeed named them. DeepSpeed's first call only allocates its states; here it is an update like the
 * others. */
#include "optim/one_bit/one_bit_adam.h"

#include "optim/one_bit/keys.h"
#include "optim/row.h"

#include <string.h>

struct params {
    double eps;
    int64_t freeze_step;
};

static bool is_frozen(const struct zt_optimizer_config *config, int64_t update) {
    return update > ((const struct params *)config->params)->freeze_step;
}

static struct zt_sharing one_bit_adam_sharing(const struct zt_optimizer_config *config, int64_t update) {
    const bool frozen = is_frozen(config, update);
    return (struct zt_sharing){ .reduced = !frozen, .compressed = frozen, .lrs_since = update };
}

static void one_bit_adam_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    struct zt_one_bit_adam c = {
        .scale = (float)u->grad_scale,
        .gain = (float)u->ranks,
        .decay = (float)u->weight_decay,
        .lr = (float)u->lr,
        .eps = (float)o->eps,
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
        .frozen = is_frozen(u->config, u->step),
    };
    ZT_STORE_COEFFICIENTS(to, c);
}

ZT_CLONES static void one_bit_adam_pack_loop(struct zt_one_bit_adam c, float *restrict g, const float *restrict m,
                                             int64_t count) {
    for (int64_t i = 0; i < count; i++)
        g[i] = zt_one_bit_adam_pack(&c, g[i], m[i]);
}

static void one_bit_adam_pack(const union zt_coefficients *from, const struct zt_slice *s) {
    const struct zt_one_bit_adam c = ZT_COEFFICIENTS(struct zt_one_bit_adam, from);
    if (c.frozen)
        one_bit_adam_pack_loop(c, s->g, s->state[0], s->count);
}

ZT_CLONES static void one_bit_adam_step_loop(struct zt_one_bit_adam c, float *restrict p, const float *restrict g,
                                             float *restrict m, float *restrict v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_one_bit_adam_step(&c, &p[i], g[i], &m[i], &v[i]);
}

static void one_bit_adam_update(const union zt_coefficients *from, double ratio, float *p, const float *g,
                                float *const state[], int64_t count) {
    (void)ratio;
    one_bit_adam_step_loop(ZT_COEFFICIENTS(struct zt_one_bit_adam, from), p, g, state[0], state[1], count);
}

static const struct zt_key_row keys[] = {
    ROWS_ONE_BIT_ADAM(OWN(struct params, eps)), ROW_FREEZE_STEP(OWN(struct params, freeze_step)), ROWS_ONE_BIT, { 0 }
};

static const struct zt_one_bit one_bit = { .sharing = one_bit_adam_sharing, .pack = one_bit_adam_pack };

const struct zt_optimizer zt_optimizer_one_bit_adam = {
    .type = { .name = "OneBitAdam", .keys = keys, .bytes = sizeof(struct params), .replicated = true },
    .states = 2,
    .state_names = { "exp_avg", "exp_avg_sq" },
    .prepare = one_bit_adam_prepare,
    .update = one_bit_adam_update,
    .one_bit = &one_bit,
};
