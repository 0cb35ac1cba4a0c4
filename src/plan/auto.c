/* ztrain.plan "auto": chooses micro-batch, accumulation, ZeRO stage and pipeline stages.
 *
 * Every candidate is planned completely (job, graphs, plan of all ranks, simulated step), with recomputation if the
 * memory limit requires it. The fastest candidate that fits is chosen; train_batch_size is constant. Candidates that
 * cannot be better are not tried: a higher ZeRO stage sends at least as much, and without a pipeline a smaller
 * micro-batch computes no faster. So each is tried only if the one before does not fit or needs recomputation.
 *
 * The machine is the named cluster, otherwise an h200 for GPUs or the nominal host. Measurements are not used, because
 * every rank of a run chooses independently. */
#include "plan/auto.h"

#include "base/text.h"
#include "base/vec.h"
#include "optim/types/types.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCHES = 6, MOST_STAGES = 16, SHOWN = 12 };

struct candidate {
    int stages, zero;
    int64_t micro_batch, accumulation;
    bool fits;
    double seconds;
    int64_t bytes;
    int recomputed; /* recomputed segments of all stages */
    char why[160];  /* the reason why it is not possible */
};

struct search {
    struct zt_session *s;
    struct zt_machine machine;
    int64_t limit;
    ZT_VEC(struct candidate) tried;
};

static void set(struct zt_config *c, const struct candidate *k, int64_t limit) {
    c->parallel.stages = k->stages;
    c->data_parallel = c->ranks / k->stages;
    c->zero.stage = k->zero;
    c->micro_batch = k->micro_batch;
    c->accumulation = k->accumulation;
    c->memory_limit = limit;
    c->plan_auto = false;
    zt_config_derive_overlap(c);
}

static void measure_plan(struct candidate *k, const struct zt_plan *plan) {
    k->fits = true;
    k->seconds = plan->timeline.seconds;
    k->bytes = zt_plan_most_bytes(plan);
    for (int s = 0; s < plan->grid.stages; s++)
        if (plan->stage[s]->train.count)
            k->recomputed += plan->stage[s]->train.at[0]->recomputed.count;
}

static void plan_candidate(struct search *q, struct candidate *k) {
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

static bool free_of_cost(const struct candidate *k) {
    return k->fits && !k->recomputed;
}

/* Whether every rank has the whole model: the optimizer excludes ZeRO and pipeline stages. */
static bool is_replicated(const struct zt_config *c) {
    const struct zt_optimizer *row = c->optimizer.type ? zt_optimizer_find(c->optimizer.type) : NULL;
    return row && row->type.replicated;
}

/* Tries the ZeRO stages of one layout until one fits without recomputation; returns the last one tried. */
static struct candidate try_zero(struct search *q, int stages, int64_t micro_batch, int64_t accumulation) {
    struct candidate k = { 0 };
    const int most = q->s->config->ranks / stages > 1 && !is_replicated(q->s->config) ? 3 : 0;
    for (int zero = 0; zero <= most; zero++) {
        k = (struct candidate){
            .stages = stages, .zero = zero, .micro_batch = micro_batch, .accumulation = accumulation
        };
        plan_candidate(q, &k);
        if (free_of_cost(&k))
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
        struct candidate k = try_zero(q, stages, each / accumulation, accumulation);
        tried++;
        if (stages == 1 && free_of_cost(&k))
            break;
    }
}

/* ---- the choice and its explanation ---- */

static int better_first(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
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
    zt_text_add(to, "plan auto: %d candidates%s%s, fastest first\n", q->tried.count,
                q->limit ? ", memory limit per rank " : "", q->limit ? zt_format_bytes(limit, (double)q->limit) : "");
    for (int i = 0; i < q->tried.count && i < SHOWN; i++) {
        const struct candidate *k = &q->tried.at[i];
        zt_text_add(to, "  %d stages, zero %d, micro-batch %lld x %lld: ", k->stages, k->zero,
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

bool zt_auto_choose(struct zt_session *s, struct zt_err *err) {
    struct search q = { .s = s, .limit = s->config->memory_limit };
    if (!zt_session_machine(s, NULL, &q.machine, err))
        return false;
    if (!q.limit)
        q.limit = q.machine.memory_bytes;
    const int most = is_replicated(s->config) ? 1 : MOST_STAGES;
    for (int stages = 1; stages <= s->config->ranks && stages <= most; stages++)
        try_stages(&q, stages);
    bool ok = true;
    if (!q.tried.count)
        ok = zt_fail(err, ZT_EXIT_CONFIG,
                     "%s: ztrain.plan \"auto\": train_batch_size %lld cannot be divided among %d ranks",
                     s->options->config, (long long)s->config->train_batch, s->config->ranks);
    if (ok) {
        struct zt_text why = { 0 };
        qsort(q.tried.at, (size_t)q.tried.count, sizeof *q.tried.at, better_first);
        explain(&q, &why);
        s->job->chosen = zt_arena_strdup(s->job->arena, why.at);
        zt_text_finish(&why);
        if (q.tried.at[0].fits)
            set(s->config, &q.tried.at[0], q.limit);
        else
            ok = zt_fail(err, ZT_EXIT_CONFIG, "%s: ztrain.plan \"auto\": none of %d plans is possible; the first: %s",
                         s->options->config, q.tried.count, q.tried.at[0].why);
    }
    zt_vec_finish(&q.tried);
    return ok;
}
