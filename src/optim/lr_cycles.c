/* The rules that go up and down: DeepSpeed's OneCycle, PyTorch's OneCycleLR (Smith and Topin, 2018) and CyclicLR
 * (Smith, 2015), which move the momentum against the rate. Updates count from 0, as in lr.c. */
#include "optim/lr_rules.h"

#include <math.h>
#include <stdio.h>

/* ---- one cycle ---- */

struct one_cycle {
    struct zt_numbers min_lr, max_lr, min_mom, max_mom;
    double decay_lr_rate, decay_mom_rate;
    int64_t first_step_size, second_step_size;                      /* second 0: as first */
    int64_t first_stair_count, second_stair_count, decay_step_size; /* second below 0: as first */
    bool momentum;
};

static const struct zt_key_row one_cycle_keys[] = {
    { .key = SCHEDULER "cycle_min_lr",
      EACH,
      FROM(0),
      .needed = true,
      AUTO("0", "least rate"),
      RULE(one_cycle, min_lr) },
    { .key = SCHEDULER "cycle_max_lr",
      EACH,
      FROM(0),
      .needed = true,
      AUTO("0", "optimizer.params.lr"),
      .auto_is_lr = true,
      RULE(one_cycle, max_lr) },
    { .key = SCHEDULER "decay_lr_rate", NUMBER, FROM(0), DEF("0"), RULE(one_cycle, decay_lr_rate) },
    { .key = SCHEDULER "cycle_first_step_size", INT(1), DEF("2000"), RULE(one_cycle, first_step_size) },
    { .key = SCHEDULER "cycle_second_step_size",
      INT(1),
      DEF("0"),
      .keeps_auto = true,
      RULE(one_cycle, second_step_size) },
    { .key = SCHEDULER "cycle_first_stair_count", INT(0), DEF("0"), RULE(one_cycle, first_stair_count) },
    { .key = SCHEDULER "cycle_second_stair_count",
      INT(0),
      DEF("-1"),
      AUTO("-1", "cycle_first_stair_count"),
      .keeps_auto = true,
      RULE(one_cycle, second_stair_count) },
    { .key = SCHEDULER "decay_step_size", INT(0), DEF("0"), RULE(one_cycle, decay_step_size) },
    { .key = SCHEDULER "cycle_momentum", BOOL, DEF("true"), RULE(one_cycle, momentum) },
    { .key = SCHEDULER "cycle_min_mom", EACH, BELOW_ONE, DEF("0.8"), RULE(one_cycle, min_mom) },
    { .key = SCHEDULER "cycle_max_mom", EACH, BELOW_ONE, DEF("0.9"), RULE(one_cycle, max_mom) },
    { .key = SCHEDULER "decay_mom_rate", NUMBER, FROM(0), DEF("0"), RULE(one_cycle, decay_mom_rate) },
    LAST_ITERATION,
    { 0 },
};

/* Height `at` of a ramp of `length` updates, 0 .. 1; with stairs, the height of the step below it. */
static double ramp(int64_t at, int64_t length, int64_t stairs) {
    double height = (double)at / (double)length;
    return stairs > 0 ? floor((double)at * (double)stairs / (double)length) / (double)stairs : height;
}

/* Up for `first` updates, down for `second`, then a slow decay below cycle_min_lr. The momentum goes the other way;
 * that of update 0 is cycle_min_mom, and beta2 is 0.99 throughout: DeepSpeed's quirks. */
static void one_cycle_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct one_cycle *c = s->params;
    int64_t first = c->first_step_size, second = c->second_step_size ? c->second_step_size : first;
    int64_t cycle, up = c->first_stair_count;
    if (__builtin_add_overflow(first, second, &cycle))
        cycle = INT64_MAX;
    const int64_t past = update - cycle;
    int64_t down = c->second_stair_count < 0 ? up : c->second_stair_count;
    double height = 0, decay = 0;
    if (past < 0)
        height = update <= first ? ramp(update, first, up) : ramp(-past, second, down);
    else if (c->decay_step_size > 0)
        decay = (double)past / (double)c->decay_step_size;
    const double min_lr = of_group(&c->min_lr, rate->group), max_lr = of_group(&c->max_lr, rate->group);
    rate->lr = (min_lr + (max_lr - min_lr) * height) / (1 + c->decay_lr_rate * decay);
    if (!c->momentum)
        return;
    const double min_mom = of_group(&c->min_mom, rate->group), max_mom = of_group(&c->max_mom, rate->group);
    rate->beta1 = (max_mom - (max_mom - min_mom) * height) * (1 + c->decay_mom_rate * decay);
    if (update == 0)
        rate->beta1 = min_mom;
    rate->beta2 = 0.99;
}

const struct zt_lr_rule zt_lr_one_cycle = {
    .type = { .name = "OneCycle", .keys = one_cycle_keys, .bytes = sizeof(struct one_cycle) },
    .rate = one_cycle_rate,
    .continues_late = true,
};

/* ---- PyTorch's ---- */

/* beta1 of optimizers with betas, the momentum of others. */
static void move_momentum(struct zt_rate *rate, double momentum) {
    rate->beta1 = momentum;
    rate->momentum = momentum;
}

#define CYCLES(type, least, most)                                                                                      \
    { .key = SCHEDULER "cycle_momentum", BOOL, DEF("true"), RULE(type, momentum) },                                    \
        { .key = SCHEDULER "base_momentum", EACH, BELOW_ONE, DEF(least), RULE(type, base_mom) }, {                     \
        .key = SCHEDULER "max_momentum", EACH, BELOW_ONE, DEF(most), RULE(type, max_mom)                               \
    }
#define MAX_LR(type)                                                                                                   \
    {                                                                                                                  \
        .key = SCHEDULER "max_lr", EACH, FROM(0), .needed = true, AUTO("0", "optimizer.params.lr"),                    \
        .auto_is_lr = true, RULE(type, max_lr)                                                                         \
    }

struct one_cycle_lr {
    struct zt_numbers max_lr, base_mom, max_mom;
    double pct_start, div_factor, final_div_factor;
    int64_t epochs, steps_per_epoch; /* 0: not given */
    bool linear, momentum, three_phase;
};

static const struct zt_key_choice anneals[] = { { .name = "cos" }, { .name = "linear" }, { 0 } };
static const struct zt_key_row one_cycle_lr_keys[] = {
    MAX_LR(one_cycle_lr),
    { .key = SCHEDULER "total_steps",
      INT(1),
      DEF("0"),
      AUTO("0", "the optimizer steps of the run"),
      .keeps_auto = true,
      AT(scheduler.total_num_steps) },
    { .key = SCHEDULER "epochs", INT(1), DEF("0"), .keeps_auto = true, RULE(one_cycle_lr, epochs) },
    { .key = SCHEDULER "steps_per_epoch", INT(1), DEF("0"), .keeps_auto = true, RULE(one_cycle_lr, steps_per_epoch) },
    { .key = SCHEDULER "pct_start", NUMBER, WITHIN(0, 1), DEF("0.3"), RULE(one_cycle_lr, pct_start) },
    { .key = SCHEDULER "anneal_strategy", INDEX(anneals), DEF("cos"), RULE(one_cycle_lr, linear) },
    CYCLES(one_cycle_lr, "0.85", "0.95"),
    { .key = SCHEDULER "div_factor", NUMBER, POSITIVE, DEF("25"), RULE(one_cycle_lr, div_factor) },
    { .key = SCHEDULER "final_div_factor", NUMBER, POSITIVE, DEF("1e4"), RULE(one_cycle_lr, final_div_factor) },
    { .key = SCHEDULER "three_phase", BOOL, DEF("false"), RULE(one_cycle_lr, three_phase) },
    ROWS_TORCH,
    { 0 },
};

/* total_steps, else epochs * steps_per_epoch, else the steps of the run. */
static void one_cycle_lr_settle(const struct zt_settling *s) {
    struct zt_scheduler_config *scheduler = &s->config->scheduler;
    const struct one_cycle_lr *c = scheduler->params;
    int64_t product;
    char text[160];
    if (__builtin_mul_overflow(c->epochs, c->steps_per_epoch, &product))
        product = INT64_MAX;
    s->config->optimizer.momentum_moves = c->momentum;
    if (scheduler->total_num_steps == 0 && product > 0) {
        scheduler->total_num_steps = product;
        return;
    }
    const char *why =
        scheduler->total_num_steps ? "total_steps is given" : "read with epochs and steps_per_epoch alone";
    if (c->epochs) {
        snprintf(text, sizeof text, "scheduler.params.epochs = %lld (%s)", (long long)c->epochs, why);
        s->lists(s, text);
    }
    if (c->steps_per_epoch) {
        snprintf(text, sizeof text, "scheduler.params.steps_per_epoch = %lld (%s)", (long long)c->steps_per_epoch, why);
        s->lists(s, text);
    }
}

/* A phase of the cycle: up to update `end`, towards a rate and a momentum. */
struct phase {
    double end, lr, momentum;
};

static double anneal(bool linear, double from, double to, double part) {
    return linear ? from + (to - from) * part : to + (from - to) / 2 * (cos(M_PI * part) + 1);
}

/* Up from max_lr / div_factor in pct_start of the updates, then down to 1 / final_div_factor of the start; with three
 * phases first down to the start in as many. Past the end, where PyTorch raises an error, it stays. */
static void one_cycle_lr_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct one_cycle_lr *c = s->params;
    const double total = (double)s->total_num_steps, at = fmin((double)update, total - 1);
    const double top = of_group(&c->max_lr, rate->group), start = top / c->div_factor,
                 last = start / c->final_div_factor;
    const double most = of_group(&c->max_mom, rate->group), least = of_group(&c->base_mom, rate->group);
    const struct phase up = { c->pct_start * total - 1, top, least };
    const struct phase three[] = { up, { 2 * c->pct_start * total - 2, start, most }, { total - 1, last, most } };
    const struct phase two[] = { up, { total - 1, last, most } }, *phase = c->three_phase ? three : two;
    const struct phase *end = phase + (c->three_phase ? 2 : 1);
    struct phase from = { 0, start, most };
    for (; phase < end && at > phase->end; phase++)
        from = *phase;
    const double length = phase->end - from.end, part = length != 0 ? (at - from.end) / length : 1;
    rate->lr = anneal(c->linear, from.lr, phase->lr, part);
    if (c->momentum)
        move_momentum(rate, anneal(c->linear, from.momentum, phase->momentum, part));
}

const struct zt_lr_rule zt_lr_one_cycle_lr = {
    .type = { .name = "OneCycleLR",
              .keys = one_cycle_lr_keys,
              .bytes = sizeof(struct one_cycle_lr),
              .settle = one_cycle_lr_settle,
              .moves_momentum = true },
    .rate = one_cycle_lr_rate,
};

struct cyclic_lr {
    struct zt_numbers base_lr, max_lr, base_mom, max_mom;
    double up, down, gamma; /* down 0: as up */
    int mode;
    bool momentum;
};

enum cyclic_mode { TRIANGULAR, TRIANGULAR2, EXP_RANGE };
static const struct zt_key_choice cyclic_modes[] = {
    [TRIANGULAR] = { .name = "triangular" },
    [TRIANGULAR2] = { .name = "triangular2" },
    [EXP_RANGE] = { .name = "exp_range" },
    { 0 },
};
static const struct zt_key_choice scale_modes[] = { { .name = "cycle" }, { .name = "iterations" }, { 0 } };
static const struct zt_key_row cyclic_lr_keys[] = {
    { .key = SCHEDULER "base_lr", EACH, FROM(0), .needed = true, AUTO("0", "least rate"), RULE(cyclic_lr, base_lr) },
    MAX_LR(cyclic_lr),
    { .key = SCHEDULER "step_size_up", NUMBER, POSITIVE, DEF("2000"), RULE(cyclic_lr, up) },
    { .key = SCHEDULER "step_size_down", NUMBER, POSITIVE, DEF("0"), .keeps_auto = true, RULE(cyclic_lr, down) },
    { .key = SCHEDULER "mode", INDEX(cyclic_modes), DEF("triangular"), RULE(cyclic_lr, mode) },
    { .key = SCHEDULER "gamma", NUMBER, POSITIVE, DEF("1"), RULE(cyclic_lr, gamma) },
    { .key = SCHEDULER "scale_mode", CHOICE(scale_modes), ACCEPT("only read with a scale_fn") },
    CYCLES(cyclic_lr, "0.8", "0.9"),
    ROWS_TORCH,
    { 0 },
};

static void cyclic_lr_settle(const struct zt_settling *s) {
    s->config->optimizer.momentum_moves = ((const struct cyclic_lr *)s->config->scheduler.params)->momentum;
}

/* Triangles, of which each is half as high as the one before it (triangular2), or which get lower with every update
 * (exp_range). */
static void cyclic_lr_rate(const struct zt_scheduler_config *s, int64_t update, struct zt_rate *rate) {
    const struct cyclic_lr *c = s->params;
    const double whole = c->up + (c->down > 0 ? c->down : c->up), ratio = c->up / whole;
    const double at = (double)update / whole, cycle = floor(at), x = at - cycle;
    double height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
    height *= c->mode == TRIANGULAR2 ? exp2(-cycle) : c->mode == EXP_RANGE ? pow(c->gamma, (double)update) : 1;
    const double base = of_group(&c->base_lr, rate->group), most = of_group(&c->max_mom, rate->group);
    rate->lr = base + (of_group(&c->max_lr, rate->group) - base) * height;
    if (c->momentum)
        move_momentum(rate, most - (most - of_group(&c->base_mom, rate->group)) * height);
}

const struct zt_lr_rule zt_lr_cyclic_lr = {
    .type = { .name = "CyclicLR",
              .keys = cyclic_lr_keys,
              .bytes = sizeof(struct cyclic_lr),
              .settle = cyclic_lr_settle,
              .moves_momentum = true },
    .rate = cyclic_lr_rate,
};
