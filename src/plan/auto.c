/* Candidates for micro-batch, accumulation, ZeRO stage and pipeline stages: ztrain.plan "auto" chooses by their plans,
 * autotuning measures the best of them.
 *
 * Every candidate is planned completely (job, graphs, plan of all ranks, simulated step), with recomputation if the
 * memory limit requires it. The fastest candidate that fits is chosen; train_batch_size is constant. Candidates that
 * cannot be better are not tried: a higher ZeRO stage sends at least as much, and without a pipeline a smaller
 * micro-batch computes no faster. So each is tried only if the one before does not fit or needs recomputation.
 *
 * Every candidate offloads what the config states, at a ZeRO stage that has it.
 *
 * The machine is the named cluster, otherwise an h200 for GPUs or the nominal host. plan "auto" uses no measurements,
 * because every rank of a run chooses independently. */
#include "plan/auto.h"

#include "base/text.h"
#include "base/vec.h"
#include "config/offload.h"
#include "optim/types/types.h"
#include "plan/offload.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCHES = 6, MOST_STAGES = 16, SHOWN = 12 };

struct search {
    struct zt_session *s;
    struct zt_machine machine;
    int64_t limit;
    struct zt_offload_demand offload; /* of every candidate */
    struct zt_auto_list tried;
};

static void set(struct zt_config *c, const struct zt_auto_candidate *k, int64_t limit) {
    c->parallel.stages = k->stages;
    c->data_parallel = c->ranks / k->stages;
    c->zero.stage = k->zero;
    c->micro_batch = k->micro_batch;
    c->accumulation = k->accumulation;
    c->train_batch = k->micro_batch * k->accumulation * c->data_parallel;
    c->memory_limit = limit;
    c->plan_auto = false;
    zt_config_derive_overlap(c);
}

static void measure_plan(struct zt_auto_candidate *k, const struct zt_plan *plan) {
    k->fits = true;
    k->seconds = plan->timeline.seconds;
    k->bytes = zt_plan_most_bytes(plan);
    for (int s = 0; s < plan->grid.stages; s++)
        if (plan->stage[s]->programs.train.count)
            k->recomputed += plan->stage[s]->programs.train.at[0]->recomputed.count;
}

static void plan_candidate(struct search *q, struct zt_auto_candidate *k) {
    struct zt_config config = *q->s->config;
    struct zt_err err = { 0 };
    struct zt_job job = *q->s->job;
    set(&config, k, q->limit);
    job.config = &config;
    struct zt_plan_options o = { .source = q->s->source,
                                 .eval_source = q->s->eval_source,
                                 .threads = zt_session_threads(q->s),
                                 .machine = &q->machine,
                                 .elsewhere = zt_session_elsewhere(q->s) };
    struct zt_device *device = zt_device_host_create(o.threads);
    o.device = device;
    struct zt_plan *plan = zt_plan_create(&job, &o, &err);
    if (plan)
        measure_plan(k, plan);
    else
        snprintf(k->why, sizeof k->why, "%.159s", err.text[0]);
    zt_plan_destroy(plan);
    device->api->destroy(device);
    zt_vec_push(&q->tried, *k);
}

static bool is_without_cost(const struct zt_auto_candidate *k) {
    return k->fits && !k->recomputed;
}

/* Whether every rank has the whole model: the optimizer excludes ZeRO and pipeline stages. */
static bool is_replicated(const struct zt_config *c) {
    const struct zt_optimizer *row = c->optimizer.type ? zt_optimizer_find(c->optimizer.type) : NULL;
    return row && row->type.replicated;
}

/* A single rank divides nothing: it needs a stage for what it offloads alone. */
static int highest_zero(const struct search *q, int data_ranks) {
    return is_replicated(q->s->config) ? 0 : data_ranks > 1 ? 3 : q->offload.stage;
}

/* Tries the ZeRO stages of one layout until one fits without recomputation; returns the last one tried. */
static struct zt_auto_candidate try_zero(struct search *q, int stages, int64_t micro_batch, int64_t accumulation) {
    struct zt_auto_candidate k = { 0 };
    const int most = highest_zero(q, q->s->config->ranks / stages);
    for (int zero = q->offload.stage; zero <= most; zero++) {
        k = (struct zt_auto_candidate){
            .stages = stages, .zero = zero, .micro_batch = micro_batch, .accumulation = accumulation
        };
        plan_candidate(q, &k);
        if (is_without_cost(&k))
            break;
    }
    return k;
}

static void try_stages(struct search *q, int stages) {
    const struct zt_config *c = q->s->config;
    int64_t data = c->ranks / stages, each = c->train_batch / data;
    int tried = 0;
    if (c->ranks % stages || c->train_batch % data)
        return;
    for (int64_t accumulation = 1; accumulation <= each && tried < MICRO_BATCHES; accumulation++) {
        if (each % accumulation)
            continue;
        struct zt_auto_candidate k = try_zero(q, stages, each / accumulation, accumulation);
        tried++;
        if (stages == 1 && is_without_cost(&k))
            break;
    }
}

/* ---- the choice and its explanation ---- */

static int better_first(const void *a, const void *b) {
    const struct zt_auto_candidate *x = a, *y = b;
    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->stages != y->stages)
        return x->stages < y->stages ? -1 : 1;
    if (x->zero != y->zero)
        return x->zero < y->zero ? -1 : 1;
    return x->micro_batch > y->micro_batch ? -1 : x->micro_batch < y->micro_batch;
}

static void explain(const struct search *q, struct zt_text *to) {
    char limit[32], bytes[32];
    zt_text_add(to, "plan auto: %d candidate%s%s%s, fastest first\n", q->tried.count, zt_plural(q->tried.count),
                q->limit ? ", memory limit per rank " : "", q->limit ? zt_format_bytes(limit, (double)q->limit) : "");
    if (q->offload.stage)
        zt_text_add(to, "  left out: ZeRO stages below %d, which exclude %s.device \"%s\"\n", q->offload.stage,
                    q->offload.object, q->offload.device);
    for (int i = 0; i < q->tried.count && i < SHOWN; i++) {
        const struct zt_auto_candidate *k = &q->tried.at[i];
        zt_text_add(to, "  %d stage%s, zero %d, micro-batch %lld x %lld: ", k->stages, zt_plural(k->stages), k->zero,
                    (long long)k->micro_batch, (long long)k->accumulation);
        if (k->fits)
            zt_text_add(to, "%.3f ms per step, %s per rank%s\n", 1e3 * k->seconds,
                        zt_format_bytes(bytes, (double)k->bytes), k->recomputed ? ", partly recomputed" : "");
        else
            zt_text_add(to, "not possible: %s\n", k->why);
    }
    if (q->tried.count > SHOWN)
        zt_text_add(to, "  and %d more\n", q->tried.count - SHOWN);
}

static bool open_search(struct search *q, struct zt_session *s, struct zt_err *err) {
    *q = (struct search){ .s = s, .limit = s->config->memory_limit };
    if (!zt_session_machine(s, NULL, &q->machine, err))
        return false;
    if (!q->limit)
        q->limit = q->machine.memory_bytes;
    if (!is_replicated(s->config))
        q->offload = zt_offload_demand(s->config, zt_session_elsewhere(s));
    return true;
}

bool zt_auto_choose(struct zt_session *s, struct zt_err *err) {
    struct search q;
    if (!open_search(&q, s, err))
        return false;
    const int most = is_replicated(s->config) ? 1 : MOST_STAGES;
    for (int stages = 1; stages <= s->config->ranks && stages <= most; stages++)
        try_stages(&q, stages);
    bool ok = true;
    if (!q.tried.count)
        ok =
            zt_fail(err, ZT_EXIT_CONFIG, "ztrain.plan \"auto\": train_batch_size %lld cannot be divided among %d ranks",
                    (long long)s->config->train_batch, s->config->ranks);
    if (ok) {
        struct zt_text why = { 0 };
        qsort(q.tried.at, (size_t)q.tried.count, sizeof *q.tried.at, better_first);
        explain(&q, &why);
        s->job->chosen = zt_arena_strdup(s->job->arena, why.at);
        zt_text_finish(&why);
        if (q.tried.at[0].fits) {
            set(s->config, &q.tried.at[0], q.limit);
            zt_offload_note_chosen(s->config);
        } else
            ok = zt_fail(err, ZT_EXIT_CONFIG, "ztrain.plan \"auto\": none of %d plans is possible; the first: %s",
                         q.tried.count, q.tried.at[0].why);
    }
    zt_vec_finish(&q.tried);
    return ok || zt_config_locate(s->config, s->options->config, err, err->count - 1);
}

/* ---- candidates for autotuning ---- */

/* Plans one micro-batch at every ZeRO stage that the config leaves open. Whether one fits. */
static bool try_micro_batch(struct search *q, int64_t micro_batch, int64_t accumulation) {
    const struct zt_config *c = q->s->config;
    int first = c->tuning.fixes_stage ? c->zero.stage : q->offload.stage;
    int last = c->tuning.fixes_stage ? first : highest_zero(q, c->data_parallel);
    bool fits = false;
    for (int zero = first; zero <= last; zero++) {
        struct zt_auto_candidate k = {
            .stages = c->parallel.stages, .zero = zero, .micro_batch = micro_batch, .accumulation = accumulation
        };
        plan_candidate(q, &k);
        fits |= q->tried.at[q->tried.count - 1].fits;
    }
    return fits;
}

/* Micro-batches of a constant batch: its divisors, the largest first. */
static void try_divisors(struct search *q) {
    const struct zt_config *c = q->s->config;
    const struct zt_tuning_config *t = &c->tuning;
    int64_t each = c->train_batch / c->data_parallel, found = 0;
    for (int64_t accumulation = 1; accumulation <= each && found < t->counts; accumulation++) {
        int64_t micro_batch = each / accumulation;
        bool wanted = !t->fixes_accumulation || accumulation == c->accumulation;
        if (wanted && each % accumulation == 0 && micro_batch <= t->max_micro_batch &&
            micro_batch >= t->min_micro_batch)
            found += try_micro_batch(q, micro_batch, accumulation);
    }
}

/* Micro-batches of a batch that follows them: powers of two, the largest that fits first. */
static void try_powers(struct search *q) {
    const struct zt_config *c = q->s->config;
    const struct zt_tuning_config *t = &c->tuning;
    int64_t per_micro = (int64_t)c->data_parallel * c->accumulation, most = t->max_micro_batch, found = 0, power = 1;
    int64_t whole = t->max_train_batch;
    whole = q->s->source && q->s->source->samples < whole ? q->s->source->samples : whole;
    most = whole / per_micro < most ? whole / per_micro : most;
    while (power <= most / 2)
        power *= 2;
    for (; power >= t->min_micro_batch && power * per_micro >= t->min_train_batch && found < t->counts; power /= 2)
        found += power <= most && try_micro_batch(q, power, c->accumulation);
}

/* More samples a second first. */
static int faster_first(const void *a, const void *b) {
    const struct zt_auto_candidate *x = a, *y = b;
    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    double first = x->seconds / (double)(x->micro_batch * x->accumulation);
    double second = y->seconds / (double)(y->micro_batch * y->accumulation);
    return first < second ? -1 : first > second ? 1 : better_first(a, b);
}

bool zt_auto_candidates(struct zt_session *s, struct zt_auto_list *to, struct zt_err *err) {
    struct search q;
    if (!open_search(&q, s, err))
        return false;
    const struct zt_config *c = s->config;
    if (c->tuning.fixes_micro)
        try_micro_batch(&q, c->micro_batch, c->accumulation);
    else if (c->tuning.fixes_train)
        try_divisors(&q);
    else
        try_powers(&q);
    if (q.offload.stage && !c->tuning.fixes_stage)
        zt_say(&s->options->log, ZT_LOG_INFO,
               "autotuning: left out: ZeRO stages below %d, which exclude %s.device \"%s\"", q.offload.stage,
               q.offload.object, q.offload.device);
    if (q.tried.count)
        qsort(q.tried.at, (size_t)q.tried.count, sizeof *q.tried.at, faster_first);
    *to = q.tried;
    return true;
}
