/* The learning-rate rules of DeepSpeed's lr_schedules.py 0.19 (0.16.5 where the two agree) and those of
 * torch.optim.lr_scheduler, which DeepSpeed takes by name: formula, config keys, row. lr_cycles.c has the cycles.
 *
 * DeepSpeed's counter i is -1 until the first applied update is over, then 0, 1, ... So update u, from 0 on, runs with
 * i = u - 1, and update 0 with the value that the constructor set: the warm-up rules are one update late. LRRangeTest
 * and OneCycle count i + 1 = u and are not, nor are PyTorch's rules, whose counter is u. */
#include "optim/lr_rules.h"

#include <math.h>
#include <strings.h>

#define TOTAL                                                                                                          \
    {                                                                                                                  \
        .key = SCHEDULER "total_num_steps", INT(1), .needed = true, AUTO("0", "the optimizer steps of the run"),       \
        .keeps_auto = true, AT(scheduler.total_num_steps)                                                              \
    }

/* ---- warm-up ---- */

struct warmup {
    struct zt_numbers min_lr, max_lr;
    double min_ratio, cos_min_ratio;
    int64_t num_steps;
    bool log; /* warmup_type log, else linear */
};

static const struct zt_key_choice warmups[] = { { .name = "linear" }, { .name = "log" }, { 0 } };

/* "auto" of warmup_max_lr is the optimizer's lr; 0.001 is the default of DeepSpeed 0.16.5. */
#define WARMUP_RATES                                                                                                   \
    { .key = SCHEDULER "warmup_min_lr", EACH, FROM(0), DEF("0"), RULE(warmup, min_lr) }, {                             \
        .key = SCHEDULER "warmup_max_lr", EACH, FROM(0), DEF("0.001"), AUTO("0.001", "optimizer.params.lr"),           \
        .auto_is_lr = true, RULE(warmup, max_lr)                                                                       \
    }
/* The rules take max(2, n), so 0, Hugging Face's default, is as good as 1 (DeepSpeed 0.16.5 allows it). */
#define WARMUP_STEPS                                                                                                   \
    { .key = SCHEDULER "warmup_num_steps", INT(0), DEF("1000"), AUTO("0", HF), RULE(warmup, num_steps) }, {            \
        .key = SCHEDULER "warmup_type", INDEX(warmups), .otherwise = "log", DEF("log"), RULE(warmup, log)              \
    }
static const struct zt_key_row warmup_keys[] = { WARMUP_RATES, WARMUP_STEPS, LAST_ITERATION, { 0 } };
static const struct zt_key_row warmup_decay_keys[] = { WARMUP_RATES, WARMUP_STEPS, TOTAL, LAST_ITERATION, { 0 } };
static const struct zt_key_row warmup_cosine_keys[] = {
    WARMUP_STEPS,
    TOTAL,
    { .key = SCHEDULER "warmup_min_ratio", NUMBER, WITHIN(0, 1), DEF("0"), RULE(warmup, min_ratio) },
    { .key = SCHEDULER "cos_min_ratio", NUMBER, WITHIN(0, 1), DEF("1e-4"), RULE(warmup, cos_min_ratio) },
    LAST_ITERATION,
    { 0 },
};

/* The part of the warm-up that is done at counter i, 0 .. 1. */
static double warmup_part(const struct warmup *w, double i, double steps) {
    if (i >= steps)
        return 1;
    return w->log ? log(i + 1) / log(steps) : i / steps;
}

static double warmup_steps(const struct warmup *w) {
    return w->num_steps < 2 ? 2 : (double)w->num_steps;
}

static double warmup_span(const struct warmup *w, int group, double part) {
    const double min = of_group(&w->min_lr, group), max = of_group(&w->max_lr, group);
    return min + (max - min) * part;
}

static void warmup_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct warmup *w = s->params;
    const double part = update == 0 ? 0 : warmup_part(w, (double)(update - 1), warmup_steps(w));
    rate->lr = warmup_span(w, rate->group, part);
}

/* Down to warmup_min_lr, not to 0. */
static void warmup_decay_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct warmup *w = s->params;
    double i = (double)(update - 1), steps = warmup_steps(w), t = (double)s->total_num_steps;
    if (i < steps)
        warmup_rate(s, update, rate);
    else
        rate->lr = warmup_span(w, rate->group, fmax(0, (t - i) / fmax(1, t - steps)));
}

/* Scales the optimizer's own rate. Past total_num_steps it stays at its end (0.16.5 swings back up). */
static void warmup_cosine_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct warmup *w = s->params;
    double i = (double)(update - 1), steps = warmup_steps(w), t = (double)s->total_num_steps, ratio;
    if (update == 0) {
        ratio = 0;
    } else if (i < steps) {
        ratio = w->min_ratio + (1 - w->min_ratio) * warmup_part(w, i, steps);
    } else {
        double x = fmin(1, (i - steps + 1) / fmax(1, t - steps));
        ratio = w->cos_min_ratio + (1 - w->cos_min_ratio) * (1 + cos(M_PI * x)) / 2;
    }
    rate->lr *= ratio;
}

/* ---- range test ---- */

struct range_test {
    struct zt_numbers min_lr;
    double step_rate;
    int64_t step_size;
    bool staircase;
};

static const struct zt_key_row range_test_keys[] = {
    { .key = SCHEDULER "lr_range_test_min_lr", EACH, POSITIVE, DEF("1e-3"), RULE(range_test, min_lr) },
    { .key = SCHEDULER "lr_range_test_step_size", INT(1), DEF("2000"), RULE(range_test, step_size) },
    { .key = SCHEDULER "lr_range_test_step_rate", NUMBER, FROM(0), DEF("1"), RULE(range_test, step_rate) },
    { .key = SCHEDULER "lr_range_test_staircase", BOOL, DEF("false"), RULE(range_test, staircase) },
    LAST_ITERATION,
    { 0 },
};

static void range_test_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct range_test *c = s->params;
    double k = (double)update / (double)c->step_size;
    if (c->staircase)
        k = floor(k);
    rate->lr = of_group(&c->min_lr, rate->group) * (1 + c->step_rate * k);
}

/* ---- PyTorch's rules: functions of the update ---- */

struct decay {
    double gamma, eta_min;
    int64_t step_size;
    struct zt_numbers milestones; /* in any order, repeated ones count again */
};

#define GAMMA(...)                                                                                                     \
    { .key = SCHEDULER "gamma", NUMBER, POSITIVE, RULE(decay, gamma), __VA_ARGS__ }

static const struct zt_key_row step_keys[] = {
    { .key = SCHEDULER "step_size", INT(1), .needed = true, RULE(decay, step_size) },
    GAMMA(DEF("0.1")),
    ROWS_TORCH,
    { 0 },
};
static const struct zt_key_row exponential_keys[] = { GAMMA(.needed = true), ROWS_TORCH, { 0 } };
static const struct zt_key_row multi_step_keys[] = {
    { .key = SCHEDULER "milestones", NUMBERS, FROM(0), .whole = true, .needed = true, RULE(decay, milestones) },
    GAMMA(DEF("0.1")),
    ROWS_TORCH,
    { 0 },
};
/* "auto" of T_max is what it is set to by hand most often. */
static const struct zt_key_row cosine_keys[] = {
    { .key = SCHEDULER "T_max",
      INT(1),
      .needed = true,
      AUTO("0", "the optimizer steps of the run"),
      .keeps_auto = true,
      AT(scheduler.total_num_steps) },
    { .key = SCHEDULER "eta_min", NUMBER, FROM(0), DEF("0"), RULE(decay, eta_min) },
    ROWS_TORCH,
    { 0 },
};

/* From `start` to `end` of the optimizer's rate in total_iters updates; ConstantLR stays at `start` until then. */
struct ramped {
    double start, end, power;
    int64_t total;
};

#define TOTAL_ITERS                                                                                                    \
    { .key = SCHEDULER "total_iters", INT(1), DEF("5"), RULE(ramped, total) }
static const struct zt_key_row constant_keys[] = {
    { .key = SCHEDULER "factor", NUMBER, WITHIN(0, 1), DEF("0.3333333333333333"), RULE(ramped, start) },
    TOTAL_ITERS,
    ROWS_TORCH,
    { 0 },
};
static const struct zt_key_row linear_keys[] = {
    { .key = SCHEDULER "start_factor",
      NUMBER,
      WITHIN(0, 1),
      .above = true,
      DEF("0.3333333333333333"),
      RULE(ramped, start) },
    { .key = SCHEDULER "end_factor", NUMBER, WITHIN(0, 1), DEF("1"), RULE(ramped, end) },
    TOTAL_ITERS,
    ROWS_TORCH,
    { 0 },
};
static const struct zt_key_row polynomial_keys[] = {
    { .key = SCHEDULER "power", NUMBER, FROM(0), DEF("1"), RULE(ramped, power) },
    TOTAL_ITERS,
    ROWS_TORCH,
    { 0 },
};

struct restarts {
    double eta_min;
    int64_t first, times; /* updates of the first cosine; those of each next one are as many times so many */
};

static const struct zt_key_row restarts_keys[] = {
    { .key = SCHEDULER "T_0", INT(1), .needed = true, RULE(restarts, first) },
    { .key = SCHEDULER "T_mult", INT(1), DEF("1"), RULE(restarts, times) },
    { .key = SCHEDULER "eta_min", NUMBER, FROM(0), DEF("0"), RULE(restarts, eta_min) },
    ROWS_TORCH,
    { 0 },
};

static void constant_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct ramped *c = s->params;
    rate->lr *= update < c->total ? c->start : 1;
}

/* The part of total_iters that is done. */
static double ramped_part(const struct ramped *c, int64_t update) {
    return update < c->total ? (double)update / (double)c->total : 1;
}

static void linear_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct ramped *c = s->params;
    rate->lr *= c->start + (c->end - c->start) * ramped_part(c, update);
}

static void polynomial_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct ramped *c = s->params;
    rate->lr *= pow(1 - ramped_part(c, update), c->power);
}

static void multi_step_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct decay *c = s->params;
    int passed = 0;
    for (int i = 0; i < c->milestones.count; i++)
        passed += c->milestones.at[i] <= (double)update;
    rate->lr *= pow(c->gamma, passed);
}

static void restarts_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct restarts *c = s->params;
    double at = (double)update, length = (double)c->first;
    if (c->times == 1)
        at = fmod(at, length);
    for (; at >= length; length *= (double)c->times)
        at -= length;
    rate->lr = c->eta_min + (rate->lr - c->eta_min) * (1 + cos(M_PI * at / length)) / 2;
}

static void step_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct decay *c = s->params;
    rate->lr *= pow(c->gamma, (double)(update / c->step_size));
}

static void exponential_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct decay *c = s->params;
    rate->lr *= pow(c->gamma, (double)update);
}

/* Past T_max it swings back up, as PyTorch's does. */
static void cosine_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct decay *c = s->params;
    double turn = cos(M_PI * (double)update / (double)s->total_num_steps);
    rate->lr = c->eta_min + (rate->lr - c->eta_min) * (1 + turn) / 2;
}

/* ---- PyTorch's ReduceLROnPlateau: a function of what happened ---- */

struct plateau {
    double factor, threshold, eps;
    struct zt_numbers min_lr;
    int64_t patience, cooldown;
    bool max, absolute; /* mode max; threshold_mode abs */
};

static const struct zt_key_choice plateau_modes[] = { { .name = "min" }, { .name = "max" }, { 0 } };
static const struct zt_key_choice threshold_modes[] = { { .name = "rel" }, { .name = "abs" }, { 0 } };
static const struct zt_key_row plateau_keys[] = {
    { .key = SCHEDULER "mode", INDEX(plateau_modes), DEF("min"), RULE(plateau, max) },
    { .key = SCHEDULER "factor", NUMBER, BELOW_ONE, DEF("0.1"), RULE(plateau, factor) },
    { .key = SCHEDULER "patience", INT(0), DEF("10"), RULE(plateau, patience) },
    { .key = SCHEDULER "threshold", NUMBER, FROM(0), DEF("1e-4"), RULE(plateau, threshold) },
    { .key = SCHEDULER "threshold_mode", INDEX(threshold_modes), DEF("rel"), RULE(plateau, absolute) },
    { .key = SCHEDULER "cooldown", INT(0), DEF("0"), RULE(plateau, cooldown) },
    { .key = SCHEDULER "min_lr", EACH, FROM(0), DEF("0"), .bounds = true, RULE(plateau, min_lr) },
    { .key = SCHEDULER "eps", NUMBER, FROM(0), DEF("1e-8"), RULE(plateau, eps) },
    { .key = SCHEDULER "last_epoch", INT(-1), DEF("-1"), ACCEPT("the rule counts epochs without a better value") },
    VERBOSE,
    { 0 },
};

static bool is_better(const struct plateau *c, double value, double best) {
    double margin = c->absolute ? c->threshold : best * c->threshold;
    return c->max ? value > best + margin : value < best - margin;
}

/* A value that is no number is no better than any. */
static bool plateau_observe(const struct zt_scheduler_config *s, struct zt_lr_state *state, double value) {
    const struct plateau *c = s->params;
    bool better = !isnan(value) && (!state->has_best || is_better(c, value, state->best));
    if (better) {
        state->best = value;
        state->has_best = true;
    }
    state->bad_epochs = better ? 0 : state->bad_epochs + 1;
    if (state->cooldown > 0) {
        state->cooldown--;
        state->bad_epochs = 0;
    }
    if (state->bad_epochs <= c->patience)
        return false;
    bool changed = false;
    for (int g = 0; g < state->groups; g++) {
        const double lower = fmax(state->lr[g] * c->factor, of_group(&c->min_lr, g));
        if (state->lr[g] - lower <= c->eps)
            continue;
        state->lr[g] = lower;
        changed = true;
    }
    state->cooldown = c->cooldown;
    state->bad_epochs = 0;
    return changed;
}

/* ---- the table: ROW(function and keys, name, params, whether a continued schedule starts late) ---- */

#define DEEPSPEED(ROW)                                                                                                 \
    ROW(warmup, "WarmupLR", struct warmup, true)                                                                       \
    ROW(warmup_decay, "WarmupDecayLR", struct warmup, true)                                                            \
    ROW(warmup_cosine, "WarmupCosineLR", struct warmup, true)                                                          \
    ROW(range_test, "LRRangeTest", struct range_test, true)

#define TORCH(ROW)                                                                                                     \
    ROW(step, "StepLR", struct decay, false)                                                                           \
    ROW(multi_step, "MultiStepLR", struct decay, false)                                                                \
    ROW(constant, "ConstantLR", struct ramped, false)                                                                  \
    ROW(linear, "LinearLR", struct ramped, false)                                                                      \
    ROW(polynomial, "PolynomialLR", struct ramped, false)                                                              \
    ROW(exponential, "ExponentialLR", struct decay, false)                                                             \
    ROW(restarts, "CosineAnnealingWarmRestarts", struct restarts, false)                                               \
    ROW(cosine, "CosineAnnealingLR", struct decay, false)

#define RULE_OF(id, name_, params, late)                                                                               \
    static const struct zt_lr_rule id##_rule = {                                                                       \
        .type = { .name = name_, .keys = id##_keys, .bytes = sizeof(params) },                                         \
        .rate = id##_rate,                                                                                             \
        .continues_late = late                                                                                         \
    };
DEEPSPEED(RULE_OF)
TORCH(RULE_OF)
static const struct zt_lr_rule plateau_rule = {
    .type = { .name = "ReduceLROnPlateau", .keys = plateau_keys, .bytes = sizeof(struct plateau) },
    .observe = plateau_observe,
};

#define ALL(EACH_RULE, ONE)                                                                                            \
    DEEPSPEED(EACH_RULE)                                                                                               \
    ONE(zt_lr_one_cycle) TORCH(EACH_RULE) ONE(zt_lr_one_cycle_lr) ONE(zt_lr_cyclic_lr) ONE(plateau_rule)
#define ADDRESS_OF(id, name_, params, late) &id##_rule,
#define ADDRESS(rule)                       &rule,
static const struct zt_lr_rule *const rules[] = { ALL(ADDRESS_OF, ADDRESS) NULL };

#define TYPE_OF(id, name_, params, late) &id##_rule.type,
#define TYPE_AT(rule)                    &rule.type,
const struct zt_key_owner *const zt_lr_rule_types[] = { ALL(TYPE_OF, TYPE_AT) NULL };

const struct zt_lr_rule *zt_lr_rule_find(const char *type) {
    for (int i = 0; rules[i]; i++)
        if (strcasecmp(rules[i]->type.name, type) == 0)
            return rules[i];
    return NULL;
}

static const struct zt_lr_rule *rule_of(const struct zt_config *config) {
    return config->scheduler.type ? zt_lr_rule_find(config->scheduler.type) : NULL;
}

bool zt_lr_by_group(const struct zt_config *config) {
    const struct zt_lr_rule *rule = rule_of(config);
    if (rule && rule->observe && config->group_count)
        return true;
    for (const struct zt_key_row *row = rule ? rule->type.keys : NULL; row && row->key; row++)
        if (row->type == ZT_KEY_EACH &&
            ((const struct zt_numbers *)((const char *)config->scheduler.params + row->at))->count > 1)
            return true;
    return false;
}

double zt_lr_of_group(const struct zt_config *config, int group) {
    const double lr = group > 0 ? config->groups[group - 1].lr : NAN;
    return isnan(lr) ? config->optimizer.lr : lr;
}

/* DeepSpeed's constructors set the first rate only where last_batch_iteration is -1. */
struct zt_rate zt_rate_at(const struct zt_config *config, const struct zt_lr_state *state, int group, int64_t update) {
    const struct zt_optimizer_config *o = &config->optimizer;
    const struct zt_scheduler_config *s = &config->scheduler;
    struct zt_rate rate = {
        .lr = zt_lr_of_group(config, group), .beta1 = o->beta1, .beta2 = o->beta2, .group = group, .update = update
    };
    const struct zt_lr_rule *rule = rule_of(config);
    if (rule && rule->observe)
        rate.lr = state->lr[group];
    else if (rule && (update > 0 || s->last_update < 0 || !rule->continues_late))
        rule->rate(s, update + s->last_update + 1, &rate);
    return rate;
}

/* ---- state ---- */

struct zt_lr_state zt_lr_state_of(const struct zt_config *config, struct zt_arena *arena) {
    struct zt_lr_state state = { .groups = 1 + config->group_count };
    state.lr = ZT_NEW_N(arena, double, state.groups);
    state.lr_sum = ZT_NEW_N(arena, double, state.groups);
    for (int g = 0; g < state.groups; g++)
        state.lr[g] = zt_lr_of_group(config, g);
    return state;
}

bool zt_lr_state_take(const struct zt_config *config, struct zt_lr_state *to, const struct zt_lr_state *from,
                      struct zt_err *err) {
    struct zt_lr_state taken = *from;
    if (from->groups != 1 && from->groups != to->groups)
        return zt_fail(err, ZT_EXIT_CONFIG,
                       "the checkpoint has learning rates of %d parameter groups, the config has %d: the optimizer's "
                       "and those of ztrain.param_groups",
                       from->groups, to->groups);
    taken.lr = to->lr;
    taken.lr_sum = to->lr_sum;
    taken.groups = to->groups;
    for (int g = 0; g < to->groups; g++) {
        const int source = from->groups == 1 ? 0 : g;
        const double own = config->optimizer.lr;
        const double ratio = source == g || own == 0 ? 1 : zt_lr_of_group(config, g) / own;
        taken.lr[g] = from->lr[source] * ratio;
        taken.lr_sum[g] = from->lr_sum[source] * ratio;
    }
    *to = taken;
    return true;
}

bool zt_lr_observes(const struct zt_config *config) {
    const struct zt_lr_rule *rule = rule_of(config);
    return rule && rule->observe;
}

bool zt_lr_wants_accuracy(const struct zt_config *config) {
    return zt_lr_observes(config) && ((const struct plateau *)config->scheduler.params)->max;
}

void zt_lr_add_step(struct zt_lr_state *state, double loss, int64_t samples) {
    state->epoch_loss += loss * (double)samples;
    state->epoch_samples += samples;
}

bool zt_lr_end_epoch(const struct zt_config *config, struct zt_lr_state *state, const double *value) {
    const double mean = state->epoch_samples ? state->epoch_loss / (double)state->epoch_samples : NAN;
    const bool changed = rule_of(config)->observe(&config->scheduler, state, value ? *value : mean);
    state->epoch_loss = 0;
    state->epoch_samples = 0;
    return changed;
}
