/* train_batch = micro_batch * accumulation * data_parallel, data_parallel = ranks / (stages * tensor), as DeepSpeed
 * computes it. A missing size is derived from the others. "auto" counts as missing where the other two determine it.
 * If nothing determines them, the micro-batch is 8 and the accumulation 1 (Hugging Face's defaults). elasticity sets
 * all three. */
#include "config/batch.h"

#include "base/text.h"
#include "config/keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRAIN, MICRO, ACCUMULATION, KEYS };
static const char *const keys[KEYS] = { "train_batch_size", "train_micro_batch_size_per_gpu",
                                        "gradient_accumulation_steps" };

struct batch {
    struct zt_json_node *node[KEYS];
    int64_t value[KEYS]; /* 0: not yet known */
    bool given[KEYS];
    char from[KEYS][ZT_JSON_ORIGIN];
    int64_t n; /* data-parallel ranks */
};

static void settle(struct batch *b, int key, int64_t value, const char *from) {
    b->value[key] = value;
    snprintf(b->from[key], sizeof b->from[key], "%s%s", b->node[key] ? "auto: " : "", from);
}

static void derive(struct batch *b) {
    int64_t *v = b->value;
    if (!v[TRAIN] && !v[MICRO])
        settle(b, MICRO, 8, "Hugging Face's default");
    if (!v[ACCUMULATION] && !(v[TRAIN] && v[MICRO]))
        settle(b, ACCUMULATION, 1, "default");
    if (!v[ACCUMULATION])
        settle(b, ACCUMULATION, v[TRAIN] / v[MICRO] / b->n, "derived");
    else if (!v[MICRO])
        settle(b, MICRO, v[TRAIN] / b->n / v[ACCUMULATION], "derived");
    else if (!v[TRAIN] && (__builtin_mul_overflow(v[MICRO], v[ACCUMULATION], &v[TRAIN]) ||
                           __builtin_mul_overflow(v[TRAIN], b->n, &v[TRAIN])))
        v[TRAIN] = 0;
    else if (!b->given[TRAIN])
        settle(b, TRAIN, v[TRAIN], "derived");
}

/* The product of the given sizes and the data-parallel ranks; the batch must be a multiple of it, and equal where both
 * are given. 0: it overflows. */
static int64_t unit(const struct batch *b) {
    int64_t product = b->n;
    for (int key = MICRO; key < KEYS; key++)
        if (b->given[key] && __builtin_mul_overflow(product, b->value[key], &product))
            return 0;
    return product;
}

/* The largest divisor of `whole` up to `most`; 0 where none is near. */
static int64_t divisor(int64_t whole, int64_t most) {
    for (int64_t d = most < whole ? most : whole, tried = 0; d > 0 && tried < 65536; d--, tried++)
        if (whole % d == 0)
            return d;
    return 0;
}

/* Hints at most three corrections: another batch, another micro-batch, another accumulation, the rest as given. */
static void suggest(struct zt_reading *r, const struct batch *b) {
    struct zt_text text = { 0 };
    int64_t step = unit(b), train = b->value[TRAIN], share = train / b->n;
    if (step > 0) {
        const int64_t near = b->given[MICRO] && b->given[ACCUMULATION] ? 0 : train / step * step;
        zt_text_add(&text, "%s %lld", keys[TRAIN], (long long)(near ? near : step));
    }
    for (int key = MICRO; key < KEYS && train % b->n == 0; key++) {
        int other = MICRO + ACCUMULATION - key;
        int64_t fixed = b->given[other] ? b->value[other] : 1, value = 0;
        if (!b->given[key])
            continue;
        if (b->given[other])
            value = share % fixed == 0 ? share / fixed : 0;
        else
            value = divisor(share, b->value[key]);
        if (value > 0 && value != b->value[key])
            zt_text_add(&text, "%s%s %lld", text.length ? ", or " : "", keys[key], (long long)value);
    }
    if (text.length)
        zt_key_hint(r, "%s would do", text.at);
    zt_text_finish(&text);
}

/* A batch of which no sample, or no micro-batch, is left for a rank: the size that is derived from it is 0. */
static bool report_too_small(struct zt_reading *r, const struct batch *b) {
    for (int key = MICRO; key < KEYS; key++) {
        const int other = MICRO + ACCUMULATION - key;
        if (b->given[key] || b->value[key] != 0 || !b->node[TRAIN])
            continue;
        zt_key_fail(r, b->node[TRAIN], "%lld (%s) is less than %s %lld (%s) x %lld data-parallel rank%s",
                    (long long)b->value[TRAIN], b->from[TRAIN], keys[other], (long long)b->value[other], b->from[other],
                    (long long)b->n, zt_plural(b->n));
        suggest(r, b);
        return true;
    }
    return false;
}

static void report(struct zt_reading *r, const struct batch *b) {
    int at = TRAIN;
    while (at < KEYS - 1 && !b->node[at])
        at++;
    if (report_too_small(r, b))
        return;
    /* The message begins with the key of the node, so that the batch is not named again. */
    zt_key_fail(r, b->node[at] ? b->node[at] : r->root,
                "%s%s%lld (%s) is not %s %lld (%s) x %s %lld (%s) x %lld data-parallel rank%s",
                at == TRAIN ? "" : keys[TRAIN], at == TRAIN ? "" : " ", (long long)b->value[TRAIN], b->from[TRAIN],
                keys[MICRO], (long long)b->value[MICRO], b->from[MICRO], keys[ACCUMULATION],
                (long long)b->value[ACCUMULATION], b->from[ACCUMULATION], (long long)b->n, zt_plural(b->n));
    suggest(r, b);
}

/* ranks / (stages * tensor); 0 with an error where the division leaves a remainder. */
static int64_t data_parallel(struct zt_reading *r) {
    struct zt_config *config = r->config;
    int64_t group = (int64_t)config->parallel.stages * config->parallel.tensor;
    const struct zt_json_node *stages = zt_keys_node(r, "pipeline.stages"),
                              *tensor = zt_keys_node(r, "ztrain.parallel.tensor");
    const struct zt_json_node *at = config->parallel.stages > 1 && stages ? stages : tensor ? tensor : r->root;
    if (config->ranks % group == 0)
        return config->ranks / group;
    if (config->parallel.tensor > 1)
        zt_key_fail(r, at, "%d stages x %d tensor-parallel ranks do not divide %d ranks", config->parallel.stages,
                    config->parallel.tensor, config->ranks);
    else if (group > config->ranks)
        zt_key_fail(r, at, "%lld stages need as many ranks, found %d", (long long)group, config->ranks);
    else
        zt_key_fail(r, at, "%lld stages do not divide %d ranks", (long long)group, config->ranks);
    zt_key_hint(r, "start a multiple of %lld ranks (--ranks) or change pipeline.stages", (long long)group);
    return 0;
}

/* Reads the keys. False where one of them has a wrong value, which has been reported. */
static bool gather(const struct zt_reading *r, struct batch *b) {
    for (int key = 0; key < KEYS; key++) {
        const struct zt_json_node *raw = zt_json_node_child(r->root, keys[key]);
        b->node[key] = zt_keys_node(r, keys[key]);
        if (raw && raw->kind != ZT_JSON_NODE_NULL && !b->node[key])
            return false;
        b->given[key] = b->node[key] && !b->node[key]->automatic;
        if (b->given[key]) {
            b->value[key] = b->node[key]->integer;
            zt_json_node_origin(b->node[key], b->from[key]);
        }
    }
    return true;
}

static void finish(struct zt_reading *r, struct batch *b) {
    struct zt_config *config = r->config;
    config->train_batch = b->value[TRAIN];
    config->micro_batch = b->value[MICRO];
    config->accumulation = b->value[ACCUMULATION];
    config->batch_source = zt_arena_printf(
        r->arena, "%s %lld (%s) = %s %lld (%s) x %s %lld (%s) x %lld data-parallel rank%s", keys[TRAIN],
        (long long)b->value[TRAIN], b->from[TRAIN], keys[MICRO], (long long)b->value[MICRO], b->from[MICRO],
        keys[ACCUMULATION], (long long)b->value[ACCUMULATION], b->from[ACCUMULATION], (long long)b->n, zt_plural(b->n));
    for (int key = 0; key < KEYS; key++)
        if (b->node[key] && b->node[key]->automatic) {
            b->node[key]->rule = zt_arena_strdup(r->arena, b->from[key] + sizeof "auto: " - 1);
            zt_texts_add(r->arena, &config->resolved_auto, "%s = %lld (%s)", keys[key], (long long)b->value[key],
                         b->from[key]);
        }
    const struct zt_json_node *pipeline = zt_keys_node(r, "pipeline.micro_batch_size");
    if (pipeline && pipeline->integer != 0 && pipeline->integer != config->micro_batch)
        zt_key_fail(r, pipeline, "%lld, wants 0 or %s %lld", (long long)pipeline->integer, keys[MICRO],
                    (long long)config->micro_batch);
}

/* Evaluation reads micro-batches alone. The other sizes are for the ranks that train. */
static void keep_micro_batch(struct batch *b) {
    for (int key = 0; key < KEYS && b->given[MICRO]; key++)
        if (key != MICRO) {
            b->given[key] = false;
            b->value[key] = 0;
        }
}

/* ---- elasticity ---- */

#define E "elasticity."

static const int highly_composite[] = { 1,      2,      4,      6,      12,     24,     36,     48,    60,    120,
                                        180,    240,    360,    720,    840,    1260,   1680,   2520,  5040,  7560,
                                        10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440, 83160, 110880,
                                        166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720 };

/* What a version 0.1 search is given. */
struct search {
    const struct zt_elasticity_config *config;
    int64_t max_batch, min_ranks, max_ranks;
};

static int64_t micro_at(const struct zt_elasticity_config *c, int i) {
    return (int64_t)c->micro_batches.at[i];
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool in_range(const struct search *s, int64_t ranks) {
    return ranks >= s->min_ranks && ranks <= s->max_ranks;
}

/* Lists the valid numbers of ranks in ascending order, each once; free with free(). */
static int64_t *list_valid(const struct search *s, int64_t batch, int *count) {
    int64_t *list = NULL;
    int room = 0, kept = 0;
    *count = 0;
    for (int i = 0; i < s->config->micro_batches.count; i++) {
        const int64_t share = batch / micro_at(s->config, i);
        for (int64_t d = 1; batch % micro_at(s->config, i) == 0 && d * d <= share; d++) {
            if (share % d)
                continue;
            if (*count + 2 > room)
                list = zt_realloc(list, (size_t)(room = 2 * room + 64) * sizeof *list);
            if (in_range(s, d))
                list[(*count)++] = d;
            if (in_range(s, share / d))
                list[(*count)++] = share / d;
        }
    }
    if (*count)
        qsort(list, (size_t)*count, sizeof *list, ascending);
    for (int i = 0; i < *count; i++)
        if (i == 0 || list[i] != list[i - 1])
            list[kept++] = list[i];
    *count = kept;
    return list;
}

static int64_t scaled(const struct search *s, int64_t base) {
    int last = (int)(sizeof highly_composite / sizeof *highly_composite) - 1;
    if (base >= s->max_batch)
        return base;
    while (highly_composite[last] > s->max_batch / base)
        last--;
    return base * highly_composite[last];
}

/* The least common multiple of the micro-batches; 0 above the largest batch of a config. */
static int64_t common_multiple(const struct zt_elasticity_config *c) {
    int64_t multiple = 1;
    for (int i = 0; i < c->micro_batches.count; i++) {
        int64_t a = multiple, b = micro_at(c, i);
        while (b) {
            const int64_t rest = a % b;
            a = b;
            b = rest;
        }
        multiple = multiple / a * micro_at(c, i);
        if (multiple > 1000000000)
            return 0;
    }
    return multiple;
}

static int64_t least_micro_batch(const struct zt_elasticity_config *c) {
    int64_t least = micro_at(c, 0);
    for (int i = 1; i < c->micro_batches.count; i++)
        least = micro_at(c, i) < least ? micro_at(c, i) : least;
    return least;
}

static int64_t find_batch(const struct search *s) {
    const struct zt_elasticity_config *c = s->config;
    int64_t best = least_micro_batch(c);
    int most = 0;
    for (int i = 0; i <= c->micro_batches.count; i++) {
        const int64_t base = i < c->micro_batches.count ? micro_at(c, i) : common_multiple(c);
        const int64_t batch = base ? scaled(s, base) : best;
        int count;
        free(list_valid(s, batch, &count));
        if (count > most || (count == most && (c->prefers_larger ? batch > best : batch < best))) {
            most = count;
            best = batch;
        }
    }
    return best;
}

/* Whether `ranks` is valid for the batch, else the nearest that are. */
static bool is_valid(const struct search *s, int64_t batch, int64_t ranks, int64_t near[2]) {
    int count;
    int64_t *list = list_valid(s, batch, &count);
    bool found = false;
    near[0] = near[1] = 0;
    for (int i = 0; i < count; i++) {
        found = found || list[i] == ranks;
        if (list[i] < ranks)
            near[0] = list[i];
        else if (!near[1])
            near[1] = list[i];
    }
    free(list);
    return found;
}

/* Version 0.2 for a number of ranks that is not valid. */
static int64_t fit_batch(const struct zt_elasticity_config *c, int64_t ranks) {
    int64_t best = 0;
    for (int i = 0; i < c->micro_batches.count; i++) {
        const int64_t unit = micro_at(c, i) * ranks, batch = c->max_batch / unit * unit;
        best = i == 0 || (c->prefers_larger ? batch > best : batch < best) ? batch : best;
    }
    return best;
}

bool zt_elastic_choose(const struct zt_elasticity_config *c, int64_t ranks, struct zt_elastic_batch *to) {
    const bool by_host = c->version == 0.2;
    const int64_t host = by_host ? c->ranks_per_host : 1;
    struct search s = { c, c->max_batch / host, c->min_ranks / host, c->max_ranks / host };
    s.min_ranks = s.min_ranks ? s.min_ranks : 1;
    s.max_ranks = s.max_ranks ? s.max_ranks : s.max_batch / least_micro_batch(c);
    *to = (struct zt_elastic_batch){ .batch = find_batch(&s) };
    const bool valid = is_valid(&s, to->batch, ranks / host, to->near) && ranks % host == 0;
    to->batch = valid || !by_host ? to->batch * host : fit_batch(c, ranks);
    for (int i = 0; to->batch && (valid || by_host) && i < c->micro_batches.count; i++)
        if (to->batch / ranks % micro_at(c, i) == 0 && micro_at(c, i) > to->micro_batch)
            to->micro_batch = micro_at(c, i);
    return to->micro_batch > 0;
}

static bool check_micro_batches(struct zt_reading *r, const struct zt_json_node *list) {
    const struct zt_elasticity_config *c = &r->config->elasticity;
    const int64_t host = c->version == 0.2 ? c->ranks_per_host : 1;
    if (c->micro_batches.count == 0 || c->micro_batches.count > ZT_ELASTIC_MICRO_BATCHES)
        return zt_key_fail(r, list, "%d sizes, wants 1 to %d", c->micro_batches.count, ZT_ELASTIC_MICRO_BATCHES);
    for (int i = 0; i < c->micro_batches.count; i++)
        if (c->micro_batches.at[i] != floor(c->micro_batches.at[i]) || micro_at(c, i) > c->max_batch / host)
            return zt_key_fail(r, list, "%g, wants integers up to max_train_batch_size%s, %lld", c->micro_batches.at[i],
                               host > 1 ? " / num_gpus_per_node" : "", (long long)(c->max_batch / host));
    return true;
}

static void check_batch_keys(struct zt_reading *r) {
    for (int i = 0; i < KEYS; i++) {
        const struct zt_json_node *node = zt_keys_node(r, keys[i]);
        if (!node || node->automatic)
            continue;
        if (!r->config->elasticity.ignores_batch)
            zt_key_fail(r, node, "elasticity sets it: remove it, or set elasticity.ignore_non_elastic_batch_info");
        else
            zt_texts_add(r->arena, &r->config->without_effect, "%s = %lld (elasticity sets it)", keys[i],
                         (long long)node->integer);
    }
}

/* Whether elasticity sets the batch sizes. Checks its keys, and that no batch size is given beside it. */
static bool is_elastic(struct zt_reading *r) {
    static const char *const wants[] = { "max_train_batch_size", "micro_batch_sizes" };
    const struct zt_json_node *enabled = zt_keys_node(r, E "enabled"), *list = zt_keys_node(r, E "micro_batch_sizes");
    const struct zt_elasticity_config *c = &r->config->elasticity;
    if (!c->enabled)
        return false;
    check_batch_keys(r);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        char key[64];
        snprintf(key, sizeof key, E "%s", wants[i]);
        if (!zt_json_node_find(r->root, key))
            zt_key_fail(r, enabled, "needs %s", wants[i]);
    }
    if (c->version != 0.1 && c->version != 0.2)
        zt_key_fail(r, zt_keys_node(r, E "version"), "%g, wants 0.1 or 0.2", c->version);
    else if (list)
        check_micro_batches(r, list);
    return true;
}

static void take(struct batch *b, int key, int64_t value) {
    const bool automatic = b->node[key] && b->node[key]->automatic;
    b->value[key] = value;
    b->given[key] = true;
    snprintf(b->from[key], sizeof b->from[key], "%selasticity", automatic ? "auto: " : "");
}

/* Evaluation has one rank and reads micro-batches alone: the largest. */
static bool take_elastic(struct zt_reading *r, struct batch *b, const struct zt_config_overrides *over) {
    struct zt_elasticity_config *c = &r->config->elasticity;
    struct zt_elastic_batch chosen = { 0 };
    for (int i = 0; over->evaluates && i < c->micro_batches.count; i++)
        if (c->micro_batches.at[i] > (double)chosen.micro_batch)
            chosen.batch = chosen.micro_batch = (int64_t)c->micro_batches.at[i];
    c->ignores_batch = true; /* config.resolved.json has the sizes as well */
    if (over->evaluates || zt_elastic_choose(c, b->n, &chosen)) {
        take(b, TRAIN, chosen.batch);
        take(b, MICRO, chosen.micro_batch);
        take(b, ACCUMULATION, chosen.batch / chosen.micro_batch / b->n);
        if (!over->evaluates)
            zt_texts_add(r->arena, &r->config->resolved_auto, "elasticity: %s %lld, %s %lld, %s %lld", keys[TRAIN],
                         (long long)b->value[TRAIN], keys[MICRO], (long long)b->value[MICRO], keys[ACCUMULATION],
                         (long long)b->value[ACCUMULATION]);
        return true;
    }
    if (chosen.batch)
        zt_key_fail(r, zt_keys_node(r, "elasticity.enabled"), "%lld data-parallel rank%s cannot share a batch of %lld",
                    (long long)b->n, zt_plural(b->n), (long long)chosen.batch);
    else
        zt_key_fail(r, zt_keys_node(r, "elasticity.max_train_batch_size"),
                    "%lld is less than a micro-batch on each of %lld data-parallel ranks", (long long)c->max_batch,
                    (long long)b->n);
    if (chosen.near[0] && chosen.near[1])
        zt_key_hint(r, "%lld or %lld ranks would do", (long long)chosen.near[0], (long long)chosen.near[1]);
    else if (chosen.near[0] || chosen.near[1])
        zt_key_hint(r, "%lld ranks would do", (long long)(chosen.near[0] + chosen.near[1]));
    return false;
}

void zt_config_batch(struct zt_reading *r, const struct zt_config_overrides *over) {
    struct zt_config *config = r->config;
    struct batch b = { 0 };
    if (over->ranks < 0)
        zt_fail(r->err, ZT_EXIT_CONFIG, "--ranks: %d, allowed >= 1", over->ranks);
    config->ranks = over->ranks > 0 ? over->ranks : 1;
    if (over->evaluates) /* on one rank */
        config->parallel.stages = config->parallel.tensor = 1;
    b.n = data_parallel(r);
    config->data_parallel = (int)b.n;
    const bool elastic = is_elastic(r);
    const struct zt_json_node *stage = zt_keys_node(r, "zero_optimization.stage");
    config->tuning.fixes_stage = stage && !stage->automatic;
    if (!gather(r, &b) || b.n == 0 || (elastic && (r->problem_count || !take_elastic(r, &b, over))))
        return;
    if (!elastic && !b.node[TRAIN] && !b.node[MICRO])
        zt_texts_add(r->arena, &config->notes, "no batch size is given: %s is 8, the default of Hugging Face's Trainer",
                     keys[MICRO]);
    if (over->evaluates)
        keep_micro_batch(&b);
    config->tuning.fixes_train = b.given[TRAIN];
    config->tuning.fixes_micro = b.given[MICRO];
    config->tuning.fixes_accumulation = b.given[ACCUMULATION];
    derive(&b);
    int64_t product = 0;
    bool over_all = __builtin_mul_overflow(b.value[MICRO], b.value[ACCUMULATION], &product) ||
                    __builtin_mul_overflow(product, b.n, &product);
    bool positive = b.value[TRAIN] > 0 && b.value[MICRO] > 0 && b.value[ACCUMULATION] > 0;
    if (over_all || !positive || product != b.value[TRAIN])
        report(r, &b);
    else
        finish(r, &b);
}
