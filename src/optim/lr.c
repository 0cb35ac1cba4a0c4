/* Learning-rate rules, as DeepSpeed's lr_schedules.py has them at 0.19 (0.16.5 where the two agree).
 *
 * DeepSpeed's counter i is -1 until the first applied update is over, then 0, 1, ... Update u from 0 on so runs with
 * i = u - 1, and update 0 with what the constructor set: the warm-up rules come one update late, LRRangeTest and
 * OneCycle make up for it by counting i + 1 = u. */
#include "optim/row.h"

#include <math.h>
#include <strings.h>

/* The part of the warm-up that is done at counter i, 0 .. 1. */
static double warmup_part(const struct zt_scheduler_config *s, double i, double steps) {
    if (i >= steps)
        return 1;
    return s->warmup_log ? log(i + 1) / log(steps) : i / steps;
}

static double warmup_steps(const struct zt_scheduler_config *s) {
    return s->warmup_num_steps < 2 ? 2 : (double)s->warmup_num_steps;
}

static double warmup_span(const struct zt_scheduler_config *s, double part) {
    return s->warmup_min_lr + (s->warmup_max_lr - s->warmup_min_lr) * part;
}

static void warmup_rate(const struct zt_scheduler_config *s, const struct zt_optimizer_config *o, int64_t update,
                        struct zt_rate *rate) {
    (void)o;
    rate->lr = update == 0 ? s->warmup_min_lr : warmup_span(s, warmup_part(s, (double)(update - 1), warmup_steps(s)));
}

/* Down to warmup_min_lr, not to 0. */
static void warmup_decay_rate(const struct zt_scheduler_config *s, const struct zt_optimizer_config *o, int64_t update,
                              struct zt_rate *rate) {
    double i = (double)(update - 1), w = warmup_steps(s), t = (double)s->total_num_steps;
    if (i < w)
        warmup_rate(s, o, update, rate);
    else
        rate->lr = warmup_span(s, fmax(0, (t - i) / fmax(1, t - w)));
}

/* Scales the optimizer's own rate. Past total_num_steps it stays at its end (0.16.5 swings back up). */
static void warmup_cosine_rate(const struct zt_scheduler_config *s, const struct zt_optimizer_config *o, int64_t update,
                               struct zt_rate *rate) {
    double i = (double)(update - 1), w = warmup_steps(s), t = (double)s->total_num_steps, ratio;
    if (update == 0) {
        ratio = 0;
    } else if (i < w) {
        ratio = s->warmup_min_ratio + (1 - s->warmup_min_ratio) * warmup_part(s, i, w);
    } else {
        double x = fmin(1, (i - w + 1) / fmax(1, t - w));
        ratio = s->cos_min_ratio + (1 - s->cos_min_ratio) * (1 + cos(M_PI * x)) / 2;
    }
    rate->lr = o->lr * ratio;
}

static void range_test_rate(const struct zt_scheduler_config *s, const struct zt_optimizer_config *o, int64_t update,
                            struct zt_rate *rate) {
    (void)o;
    double k = (double)update / (double)s->lr_range_test_step_size;
    if (s->lr_range_test_staircase)
        k = floor(k);
    rate->lr = s->lr_range_test_min_lr * (1 + s->lr_range_test_step_rate * k);
}

/* Height `at` of a ramp of `length` updates, 0 .. 1; with stairs, the height of the step below it. */
static double ramp(int64_t at, int64_t length, int64_t stairs) {
    double height = (double)at / (double)length;
    return stairs > 0 ? floor((double)at * (double)stairs / (double)length) / (double)stairs : height;
}

/* Up for `first` updates, down for `second`, then a slow decay below cycle_min_lr. The momentum goes the other way;
 * that of update 0 is cycle_min_mom, and beta2 is 0.99 throughout: DeepSpeed's quirks. */
static void one_cycle_rate(const struct zt_scheduler_config *s, const struct zt_optimizer_config *o, int64_t update,
                           struct zt_rate *rate) {
    (void)o;
    int64_t first = s->cycle_first_step_size, second = s->cycle_second_step_size ? s->cycle_second_step_size : first;
    int64_t past = update - (first + second);
    double height = 0, decay = 0;
    if (past < 0)
        height = update <= first ? ramp(update, first, s->cycle_first_stair_count)
                                 : ramp(-past, second, s->cycle_second_stair_count);
    else if (s->decay_step_size > 0)
        decay = (double)past / (double)s->decay_step_size;
    rate->lr = (s->cycle_min_lr + (s->cycle_max_lr - s->cycle_min_lr) * height) / (1 + s->decay_lr_rate * decay);
    if (!s->cycle_momentum)
        return;
    rate->beta1 = (s->cycle_max_mom - (s->cycle_max_mom - s->cycle_min_mom) * height) * (1 + s->decay_mom_rate * decay);
    if (update == 0)
        rate->beta1 = s->cycle_min_mom;
    rate->beta2 = 0.99;
}

static const struct zt_lr_rule rules[] = {
    { .name = "WarmupLR", .rate = warmup_rate },
    { .name = "WarmupDecayLR", .rate = warmup_decay_rate },
    { .name = "WarmupCosineLR", .rate = warmup_cosine_rate },
    { .name = "OneCycle", .rate = one_cycle_rate },
    { .name = "LRRangeTest", .rate = range_test_rate },
};

const struct zt_lr_rule *zt_lr_rule_find(const char *type) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcasecmp(rules[i].name, type) == 0)
            return &rules[i];
    return NULL;
}

struct zt_rate zt_rate_at(const struct zt_config *config, int64_t update) {
    const struct zt_optimizer_config *o = &config->optimizer;
    struct zt_rate rate = { .lr = o->lr, .beta1 = o->beta1, .beta2 = o->beta2 };
    const struct zt_lr_rule *rule = config->scheduler.type ? zt_lr_rule_find(config->scheduler.type) : NULL;
    if (rule)
        rule->rate(&config->scheduler, o, update, &rate);
    return rate;
}
