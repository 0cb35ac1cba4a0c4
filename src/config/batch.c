/* train_batch = micro_batch * accumulation * data_parallel, data_parallel = ranks / (stages * tensor), as DeepSpeed
 * computes it. A missing size is derived from the others. "auto" counts as missing where the other two determine it.
 * If nothing determines them, the micro-batch is 8 and the accumulation 1 (Hugging Face's defaults). */
#include "config/batch.h"

#include "base/text.h"
#include "config/keys.h"

#include <stdio.h>

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
    bool elastic = zt_keys_truth(r, "elasticity.enabled"); /* would set all three */
    const struct zt_json_node *stage = zt_keys_node(r, "zero_optimization.stage");
    config->tuning.fixes_stage = stage && !stage->automatic;
    if (!gather(r, &b) || b.n == 0 || elastic)
        return;
    if (!b.node[TRAIN] && !b.node[MICRO])
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
