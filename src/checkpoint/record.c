/* The record of a run in a manifest: the model file, the number of samples, and every config key that affects the
 * numbers of a step. Keys of parallelism do not. */
#include "checkpoint/record.h"

#include "base/crc.h"
#include "config/table.h"
#include "data/data.h"
#include "plan/job/override.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* Keys about devices, frequency and length, which do not affect the computation. */
static const char *const left_out[] = {
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "steps_per_print",
    "log_level",
    "*_breakdown",
    "dump_state",
    "comms_logger*",
    "flops_profiler*",
    "tensorboard*",
    "csv_monitor*",
    "zero_optimization*",
    "activation_checkpointing*",
    "aio*",
    "pipeline*",
    "checkpoint*",
    "dataloader_*",
    "ztrain.data.path",
    "ztrain.data.eval_path",
    "ztrain.data.samples", /* the actual number is recorded */
    "ztrain.metrics",
    "ztrain.epochs",
    "ztrain.steps",
    "ztrain.seed", /* recorded separately, because JSON numbers hold only 53 bits */
    "ztrain.fuse",
    "ztrain.lora.export",
    "ztrain.parallel.mode",
    "ztrain.parallel.schedule",
    "ztrain.parallel.chunks",
    "ztrain.parallel.tensor",
    "ztrain.parallel.communicator",
    "ztrain.plan",
    "ztrain.memory_limit",
    "ztrain.recompute",
    "ztrain.cluster",
    "ztrain.deterministic",
    "ztrain.checkpoint*",
    "ztrain.device",
};
enum { LEFT_OUT = sizeof left_out / sizeof left_out[0] };

/* Keys that determine the samples of a step and the meaning of the optimizer state. They must not change. */
static const char *const fixed[] = {
    "train_batch_size",  "ztrain.data.shuffle",          "ztrain.data.drop_last",
    "ztrain.dataloader", "optimizer.params.freeze_step", "optimizer.params.var_freeze_step"
};

/* Keys that determine which tensors a checkpoint has. */
static const char *const of_tensors[] = { "ztrain.trainable", "ztrain.freeze", "ztrain.ema",
                                          "ztrain.tie*",      "ztrain.lora.*", "ztrain.qat.*" };

struct recorder {
    struct zt_arena *arena;
    struct zt_manifest *to;
    int room;
};

static void record(struct recorder *r, const char *key, const cJSON *item) {
    char *value = cJSON_PrintUnformatted(item);
    if (r->to->key_count == r->room) {
        struct zt_recorded_key *keys = ZT_NEW_N(r->arena, struct zt_recorded_key, r->room = 2 * r->room + 64);
        if (r->to->key_count)
            memcpy(keys, r->to->keys, (size_t)r->to->key_count * sizeof *keys);
        r->to->keys = keys;
    }
    r->to->keys[r->to->key_count++] =
        (struct zt_recorded_key){ zt_arena_strdup(r->arena, key), zt_arena_strdup(r->arena, value ? value : "null") };
    cJSON_free(value);
}

/* The depth of recursion is limited by the key table. */
static void record_members(struct recorder *r, const char *prefix, const cJSON *object) {
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        char key[256];
        snprintf(key, sizeof key, "%s%s%s", prefix, prefix[0] ? "." : "", item->string);
        if (cJSON_IsObject(item))
            record_members(r, key, item);
        else if (!zt_glob_any(left_out, LEFT_OUT, key))
            record(r, key, item);
    }
}

static bool record_config(const struct zt_session *s, struct zt_arena *arena, struct zt_manifest *to,
                          struct zt_err *err) {
    size_t bytes;
    char *text = zt_config_text(s->config, &bytes, err);
    if (!text)
        return false;
    cJSON *root = cJSON_ParseWithLength(text, bytes);
    struct recorder r = { .arena = arena, .to = to };
    record_members(&r, "", root);
    cJSON_Delete(root);
    free(text);
    return root || zt_fail(err, ZT_EXIT_RUN, "the configuration cannot be recorded");
}

bool zt_record_make(const struct zt_session *s, struct zt_arena *arena, struct zt_manifest *to, struct zt_err *err) {
    to->samples = s->source->samples;
    to->seed = (uint64_t)s->config->seed;
    to->optimizer = s->config->optimizer.type;
    to->client_state = s->config->checkpoint.client_state;
    const uint32_t frozen = zt_job_frozen_checksum(s->job);
    to->model = zt_onnx_checksum(s->model);
    if (frozen) /* of --load: they belong to the model, since a checkpoint does not hold them */
        to->model = zt_crc32c(to->model, &frozen, sizeof frozen);
    return record_config(s, arena, to, err);
}

static const char *value_of(const struct zt_manifest *m, const char *key) {
    for (int i = 0; i < m->key_count; i++)
        if (strcmp(m->keys[i].key, key) == 0)
            return m->keys[i].value;
    return NULL;
}

/* Whether the JSON value is the default of the key. */
static bool is_default(const struct zt_key_table *table, const char *key, const char *value) {
    char text[64];
    size_t length = strlen(value), quote = value[0] == '"';
    snprintf(text, sizeof text, "%.*s", (int)(length - 2 * quote), value + quote);
    return zt_key_is_default(table, key, text);
}

/* A key that the program of the checkpoint did not have fits where it has its default. */
static bool key_fits(const struct zt_session *s, const char *key, const char *was, const char *is, struct zt_err *err) {
    char origin[ZT_CONFIG_ORIGIN];
    if (strcmp(was ? was : "", is ? is : "") == 0 || (!was && is && is_default(s->config->table, key, is)))
        return true;
    zt_fail(err, ZT_EXIT_CONFIG, "%s is %s in %s; the run of the checkpoint had %s", key, is ? is : "absent",
            zt_config_origin(s->config, s->options->config, key, origin), was ? was : "none");
    return zt_hint(err, "--load CHECKPOINT --weights-only starts another run from the weights of the checkpoint");
}

/* A key that the program of the checkpoint did not have is unchanged where it has its default. */
void zt_record_report(const struct zt_manifest *stored, const struct zt_manifest *now, const struct zt_key_table *table,
                      const struct zt_log *log) {
    for (int i = 0; i < now->key_count; i++) {
        const char *was = value_of(stored, now->keys[i].key);
        if (was ? strcmp(was, now->keys[i].value) != 0 : !is_default(table, now->keys[i].key, now->keys[i].value))
            zt_say(log, ZT_LOG_INFO, "  %-15s %s = %s, in the run of the checkpoint %s", "changed", now->keys[i].key,
                   now->keys[i].value, was ? was : "not there");
    }
}

bool zt_record_fits(const struct zt_session *s, const struct zt_manifest *stored, const struct zt_manifest *now,
                    struct zt_err *err) {
    char was[32], is[32];
    if (stored->model != now->model)
        return zt_fail(err, ZT_EXIT_DATA, "made from another model than %s (checksum %08x, the model's is %08x)",
                       s->options->model, stored->model, now->model) ||
               zt_hint(err,
                       "a run whose frozen weights came from --load resumes with the same --load; --load CHECKPOINT "
                       "--weights-only takes the weights alone");
    if (stored->samples != now->samples)
        return zt_fail(err, ZT_EXIT_DATA, "made with %lld samples, the data have %lld", (long long)stored->samples,
                       (long long)now->samples);
    snprintf(was, sizeof was, "%llu", (unsigned long long)stored->seed);
    snprintf(is, sizeof is, "%llu", (unsigned long long)now->seed);
    if (!key_fits(s, "ztrain.seed", was, is, err) ||
        !key_fits(s, "optimizer.type", stored->optimizer, now->optimizer, err))
        return false;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (!key_fits(s, fixed[i], value_of(stored, fixed[i]), value_of(now, fixed[i]), err))
            return false;
    return true;
}

bool zt_record_hint_tensors(const struct zt_session *s, const struct zt_manifest *stored, const struct zt_manifest *now,
                            struct zt_err *err) {
    char origin[ZT_CONFIG_ORIGIN];
    for (int i = 0; i < now->key_count; i++) {
        const char *key = now->keys[i].key, *is = now->keys[i].value, *was = value_of(stored, key);
        if (!zt_glob_any(of_tensors, sizeof of_tensors / sizeof *of_tensors, key) ||
            (was ? strcmp(was, is) == 0 : is_default(s->config->table, key, is)))
            continue;
        return zt_hint(err,
                       "%s is %s in %s; the run of the checkpoint had %s. --load CHECKPOINT --weights-only starts "
                       "another run from its weights",
                       key, is, zt_config_origin(s->config, s->options->config, key, origin), was ? was : "none");
    }
    return false;
}
