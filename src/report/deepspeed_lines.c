#include "report/deepspeed_lines.h"

#include "optim/types/types.h"
#include "run/overflow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends the shortest decimal that reads back to the same double, in the form of Python's repr(): 10.0, 0.0001, 1e-05,
 * 1e+16. The exponent form is that of numbers below 1e-4 and from 1e16 on. */
static void add_shortest(struct zt_text *to, double value) {
    char text[40];
    int decimals = 0; /* digits behind the first one */
    snprintf(text, sizeof text, "%.0e", value);
    while (isfinite(value) && strtod(text, NULL) != value && decimals < 16)
        snprintf(text, sizeof text, "%.*e", ++decimals, value);
    const char *e = strchr(text, 'e');
    const int exponent = e ? atoi(e + 1) : 0;
    if (e && exponent >= -4 && exponent < 16)
        snprintf(text, sizeof text, "%.*f", decimals > exponent ? decimals - exponent : 0, value);
    zt_text_add(to, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

/* Appends the field mom of DeepSpeed's step line: betas or the momentum of SGD, which cycles move, 0 for optimizers
 * without either. */
static void add_momentum(struct zt_text *to, const struct zt_optimizer_config *optimizer, const struct zt_rate *rate) {
    const struct zt_optimizer *row = optimizer->type ? zt_optimizer_find(optimizer->type) : NULL;
    if (row && row->momentum) {
        add_shortest(to, optimizer->momentum_moves ? rate->momentum : row->momentum(optimizer));
        return;
    }
    zt_text_add(to, "[");
    add_shortest(to, rate->beta1);
    zt_text_add(to, ", ");
    add_shortest(to, rate->beta2);
    zt_text_add(to, "]");
}

/* The rates of a group beside row->next, which are those of group 0. A group with its own learning rate keeps its ratio
 * to the optimizer's. */
static struct zt_rate rate_of(const struct zt_config *config, const struct zt_metrics_row *row, int group) {
    const struct zt_rate *next = &row->next;
    struct zt_rate rate = *next;
    const double lr = group > 0 ? config->groups[group - 1].lr : NAN;
    if (zt_lr_by_group(config))
        return zt_rate_at(config, row->lr_state, group, next->update);
    if (!isnan(lr) && config->optimizer.lr > 0)
        rate.lr *= lr / config->optimizer.lr;
    return rate;
}

void zt_deepspeed_say_step(const struct zt_log *log, const struct zt_config *config, const struct zt_metrics_row *row,
                           int64_t skipped, struct zt_text *text) {
    zt_text_add(text, "step=%lld, skipped=%lld, lr=[", (long long)row->step, (long long)skipped);
    for (int i = 0; i <= config->group_count; i++) {
        zt_text_add(text, i ? ", " : "");
        add_shortest(text, rate_of(config, row, i).lr);
    }
    zt_text_add(text, "], mom=[");
    for (int i = 0; i <= config->group_count; i++) {
        const struct zt_rate rate = rate_of(config, row, i);
        zt_text_add(text, i ? ", " : "");
        add_momentum(text, &config->optimizer, &rate);
    }
    zt_text_add(text, "]");
    zt_say(log, ZT_LOG_INFO, "%s", text->at);
}

void zt_deepspeed_say_interval(const struct zt_log *log, const struct zt_metrics_row *row,
                               const struct zt_deepspeed_interval *interval) {
    const double rate = interval->seconds > 0 ? (double)interval->samples / interval->seconds : 0;
    zt_say(log, ZT_LOG_INFO, "steps: %lld loss: %0.4f iter time (s): %0.3f samples/sec: %0.3f", (long long)row->step,
           row->loss, interval->seconds / (double)interval->steps, rate);
}

/* DeepSpeed's timer starts after so many steps. */
enum { UNTIMED_STEPS = 2 };

void zt_deepspeed_count(struct zt_deepspeed_throughput *t, const struct zt_metrics_row *row) {
    t->micro_batches += row->micro_batches;
    if (t->steps++ < UNTIMED_STEPS)
        return;
    t->samples += row->samples;
    t->seconds += row->seconds;
}

static void add_gigabytes(struct zt_text *to, const char *name, size_t bytes) {
    zt_text_add(to, ", %s=", name);
    add_shortest(to, round(100 * (double)bytes / (1024. * 1024 * 1024)) / 100);
    zt_text_add(to, "GB");
}

void zt_deepspeed_say_throughput(const struct zt_log *log, const struct zt_deepspeed_throughput *t,
                                 const struct zt_metrics_row *row, struct zt_text *text) {
    if (t->steps <= UNTIMED_STEPS)
        return;
    zt_text_add(text, "epoch=%lld/micro_step=%lld/global_step=%lld, RunningAvgSamplesPerSec=", (long long)row->epoch,
                (long long)t->micro_batches, (long long)row->step);
    add_shortest(text, (double)t->samples / t->seconds);
    zt_text_add(text, ", CurrSamplesPerSec=");
    add_shortest(text, (double)row->samples / row->seconds);
    add_gigabytes(text, "MemAllocated", row->allocated);
    add_gigabytes(text, "MaxMemAllocated", row->peak);
    zt_say(log, ZT_LOG_INFO, "%s", text->at);
}

static void say_overflow(const struct zt_log *log, const struct zt_metrics_row *row) {
    const struct zt_scaling *s = &row->scaling;
    const struct zt_overflow *o = row->overflow;
    char more[160] = "", first[sizeof o->tensor + 60] = "";
    if (s->event == ZT_SCALE_HALVED)
        snprintf(more, sizeof more, " Attempted loss scale: %.0f, reducing to %.0f", floor(row->loss_scale),
                 floor(s->scale));
    else if (s->event == ZT_SCALE_HELD)
        snprintf(more, sizeof more, " Attempted loss scale: %.0f, but hysteresis is %lld. Reducing hysteresis to %lld",
                 floor(row->loss_scale), (long long)s->hysteresis + 1, (long long)s->hysteresis);
    if (o && !o->tensor[0])
        snprintf(first, sizeof first, " | the loss; all gradients are finite");
    else if (o)
        snprintf(first, sizeof first, " | first: gradient of \"%s\", rank %d", o->tensor, o->rank);
    zt_say(log, ZT_LOG_INFO, "[deepspeed] OVERFLOW! Rank 0 Skipping step.%s%s", more, first);
}

void zt_deepspeed_say_scaling(const struct zt_log *log, const struct zt_metrics_row *row) {
    if (row->skipped)
        say_overflow(log, row);
    else if (row->scaling.consecutive && row->scaling.dynamic)
        zt_say(log, ZT_LOG_DEBUG, "Consecutive hysteresis is enabled. Restoring hysteresis to %lld",
               (long long)row->scaling.tolerated);
}
