/* Rules that one row cannot express: keys that exclude or demand one another, and values that depend on other keys. A
 * rule is a function. All rules run, so that all problems are reported at once. */
#include "config/check.h"

#include "base/file.h"
#include "config/keys.h"
#include "config/monitors.h"
#include "config/offload.h"
#include "config/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define Z "zero_optimization."

static bool on(const struct zt_reading *r, const char *key) {
    return zt_keys_truth(r, key);
}

static double number(const struct zt_reading *r, const char *key) {
    return zt_keys_number(r, key);
}

static bool says(const struct zt_reading *r, const char *key, const char *text) {
    return strcmp(zt_keys_text(r, key), text) == 0;
}

static struct zt_json_node *given(const struct zt_reading *r, const char *key) {
    return zt_keys_node(r, key);
}

/* Whether the key is present, with a valid value or a wrong one, which has been reported already. */
static bool there(const struct zt_reading *r, const char *key) {
    const struct zt_json_node *node = zt_json_node_find(r->root, key);
    return node && node->kind != ZT_JSON_NODE_NULL;
}

/* The node that a message about a key points to: the key, or the object that lacks it. */
static const struct zt_json_node *place(const struct zt_reading *r, const char *key) {
    char parent[128];
    const char *dot = strrchr(key, '.');
    const struct zt_json_node *node = zt_keys_node(r, key);
    if (node || !dot)
        return node ? node : r->root;
    snprintf(parent, sizeof parent, "%.*s", (int)(dot - key), key);
    return place(r, parent);
}

#define FAIL(key, ...) zt_key_fail(r, place(r, key), __VA_ARGS__)

/* The chosen optimizer where every rank must have the whole model, else NULL. */
static const struct zt_key_owner *replicated(const struct zt_reading *r) {
    const struct zt_key_owner *optimizer = r->table->chosen[ZT_KEY_OPTIMIZER];
    return optimizer && optimizer->replicated ? optimizer : NULL;
}

/* Keys that their type demands, and objects without the type. */
static void needs(struct zt_reading *r) {
    static const char *const wrapper[] = { "optimizer", "scheduler" };
    for (int i = 0; i < 2; i++) {
        const struct zt_json_node *node = given(r, wrapper[i]);
        const struct zt_json_node *type = node ? zt_json_node_child(node, "type") : NULL;
        if (node && (!type || type->kind == ZT_JSON_NODE_NULL))
            zt_key_fail(r, node, "needs type");
    }
    for (int i = 0; i < r->table->count; i++) {
        const struct zt_key_row *row = r->table->row[i];
        const struct zt_key_owner *owner = r->table->owner[i];
        if (row->needed && owner && owner == r->table->chosen[r->table->kind[i]] && !there(r, row->key))
            zt_key_fail(r, place(r, row->key), "%s needs %s", owner->name, strrchr(row->key, '.') + 1);
    }
}

/* Without a pattern the other keys would have no effect. */
static void lora(struct zt_reading *r) {
    const struct zt_json_node *match = given(r, "ztrain.lora.match");
    if (given(r, "ztrain.lora") && (match ? !match->first : !there(r, "ztrain.lora.match")))
        FAIL("ztrain.lora.match", "needs at least one pattern of names: [\"*attn*\"]");
}

/* Nodes are inserted where a type is given; the other keys say how. */
static void qat(struct zt_reading *r) {
#define Q "ztrain.qat."
    static const char *const how[] = { Q "match", Q "per", Q "weights_symmetric", Q "activations_symmetric",
                                       Q "momentum" };
    const bool weights = !says(r, Q "weights", "none"), activations = !says(r, Q "activations", "none");
    for (size_t i = 0; i < sizeof how / sizeof *how && !weights && !activations; i++)
        if (given(r, how[i]))
            FAIL(how[i], "needs ztrain.qat.weights or ztrain.qat.activations");
    if (!weights && !activations)
        return;
    if (given(r, Q "match") && !given(r, Q "match")->first)
        FAIL(Q "match", "needs at least one pattern of names: [\"*\"]");
    if (weights && says(r, Q "scales", "learn") && !on(r, Q "weights_symmetric"))
        FAIL(Q "weights_symmetric", "false excludes ztrain.qat.scales \"learn\": zero points are not learned");
#undef Q
}

/* A tag is the name of a folder beside the files `latest` and `best`. */
static void tag(struct zt_reading *r) {
    static const char step[] = "{step}";
    const char *text = zt_keys_text(r, "ztrain.checkpoint.tag"), *at = strstr(text, step);
    const size_t length = strlen(text);
    if (given(r, "ztrain.checkpoint.tag") &&
        (!at || at[sizeof step - 1] || at == text || text[0] == '.' || strchr(text, '/') || length > 32))
        FAIL("ztrain.checkpoint.tag",
             "\"%s\" is no name of at most 32 characters that ends in {step}: \"global_step{step}\"", text);
}

/* Checks keys of the dynamic loss scale. Where nothing reads them they may have any value, as in DeepSpeed 0.19.8. The
 * least scale may be 0 or a fraction, as before 0.19. */
static void dynamic_scale(struct zt_reading *r) {
    static const struct {
        const char *key;
        double least;
    } keys[] = { { "fp16.loss_scale_window", 1 }, { "fp16.min_loss_scale", 0 } };
    const bool dynamic = on(r, "fp16.enabled") && number(r, "fp16.loss_scale") == 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && dynamic; i++)
        if (given(r, keys[i].key) && number(r, keys[i].key) < keys[i].least)
            FAIL(keys[i].key, "%g, allowed >= %g with the dynamic loss scale", number(r, keys[i].key), keys[i].least);
    if (dynamic && given(r, "fp16.hysteresis") && number(r, "fp16.hysteresis") == 0)
        zt_texts_add(
            r->arena, &r->config->notes,
            "fp16.hysteresis: 0 is read as 1, each overflow halves the loss scale; DeepSpeed does that at ZeRO "
            "stage 0, and at the other stages it never halves it");
}

static void precision(struct zt_reading *r) {
    bool half = on(r, "fp16.enabled") || on(r, "bf16.enabled");
    if (on(r, "fp16.enabled") && on(r, "bf16.enabled"))
        FAIL("fp16.enabled", "true excludes bf16.enabled true: choose one");
    if (on(r, "amp.enabled") && half)
        FAIL("amp.enabled", "amp excludes %s", on(r, "fp16.enabled") ? "fp16.enabled" : "bf16.enabled");
    if (on(r, "amp.enabled") && number(r, Z "stage") > 0)
        FAIL("amp.enabled", "amp excludes zero_optimization.stage %g", number(r, Z "stage"));
    if (on(r, "bf16.bf16_optimizer_states") && !on(r, "bf16.bf16_master_weights_and_grads"))
        FAIL("bf16.bf16_optimizer_states", "needs bf16.bf16_master_weights_and_grads");
    const struct zt_key_owner *optimizer = r->table->chosen[ZT_KEY_OPTIMIZER];
    if (on(r, "fp16.enabled") && optimizer && optimizer->dynamic_scale && number(r, "fp16.loss_scale") > 0)
        FAIL("fp16.loss_scale", "%g: %s needs the dynamic loss scale, 0", number(r, "fp16.loss_scale"),
             optimizer->name);
    dynamic_scale(r);
}

/* Lists the settings of a section as without effect where its `enabled` is off. */
static void section_off(struct zt_reading *r, const char *section) {
    char value[96], key[64];
    size_t length = strlen(section);
    snprintf(key, sizeof key, "%s.enabled", section);
    for (int i = 0; i < r->table->count && !on(r, key); i++) {
        const struct zt_key_row *row = r->table->row[i];
        bool inside = strncmp(row->key, section, length) == 0 && row->key[length] == '.';
        if (!r->node[i] || !inside || row->status != ZT_KEY_WORKS || strcmp(row->key, key) == 0)
            continue;
        zt_json_node_show(r->node[i], value, sizeof value);
        if (!row->def || !zt_value_is(r->node[i], row->def))
            zt_texts_add(r->arena, &r->config->without_effect, "%s = %s (%s is off)", row->key, value, section);
    }
}

/* Lists the keys of offload that nothing reads as without effect. */
static void offload_off(struct zt_reading *r) {
    char value[96], path[256];
    for (int i = 0; i < r->table->count; i++) {
        const struct zt_key_row *row = r->table->row[i];
        const char *why = r->node[i] && row->size ? zt_offload_unread(r->config, row->key) : NULL;
        if (why)
            zt_texts_add(r->arena, &r->config->without_effect, "%s = %s (%s)",
                         zt_json_node_path(r->node[i], path, sizeof path),
                         zt_json_node_show(r->node[i], value, sizeof value), why);
    }
}

static void sections_off(struct zt_reading *r) {
    static const char *const sections[] = { "fp16", "autotuning", "tensorboard", "csv_monitor", "flops_profiler" };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        section_off(r, sections[i]);
    offload_off(r);
}

static void offload(struct zt_reading *r, const char *object, bool parameters) {
    char device[96], path[96], key[256];
    int stage = (int)number(r, Z "stage");
    snprintf(device, sizeof device, "%s.device", object);
    snprintf(path, sizeof path, "%s.nvme_path", object);
    if (says(r, device, "none"))
        return;
    if (says(r, device, "nvme") && !zt_keys_text(r, path)[0] && (!there(r, path) || given(r, path)))
        FAIL(path, "device \"nvme\" needs nvme_path");
    if (says(r, "ztrain.plan", "auto")) /* the stage is chosen later (plan/auto.c) */
        return;
    if (stage < (parameters ? 3 : 1)) { /* DeepSpeed lets it pass too */
        const char *stages = parameters ? "3" : "1 to 3";
        struct zt_json_node *node = given(r, device);
        node->ignored = true;
        zt_json_node_path(node, key, sizeof key);
        zt_texts_add(r->arena, &r->config->without_effect, "%s = \"%s\" (needs zero_optimization.stage %s)", key,
                     zt_keys_text(r, device), stages);
        zt_texts_add(r->arena, &r->config->notes, "%s has no effect: it needs zero_optimization.stage %s, found %d",
                     key, stages, stage);
    } else if (!parameters && says(r, device, "nvme") && stage < 3) {
        FAIL(device, "\"nvme\" needs zero_optimization.stage 3, found %d", stage);
    }
}

static void zero(struct zt_reading *r) {
    int stage = (int)number(r, Z "stage");
    offload(r, Z "offload_param", true);
    offload(r, Z "offload_optimizer", false);
    if (number(r, Z "offload_optimizer.ratio") < 1 && !says(r, Z "offload_optimizer.device", "none") && stage > 0 &&
        stage < 3 && !says(r, "ztrain.plan", "auto"))
        FAIL(Z "offload_optimizer.ratio", "%g needs zero_optimization.stage 3, found %d",
             number(r, Z "offload_optimizer.ratio"), stage);
    if (replicated(r) && stage > 0)
        FAIL("optimizer.type", "%s excludes ZeRO, found zero_optimization.stage %d", replicated(r)->name, stage);
    bool scatter = stage >= 2 && on(r, Z "reduce_scatter");
    if (scatter && on(r, "prescale_gradients"))
        FAIL("prescale_gradients", "true excludes zero_optimization.stage %d with reduce_scatter", stage);
    if (scatter && number(r, "gradient_predivide_factor") != 1)
        FAIL("gradient_predivide_factor", "%g excludes zero_optimization.stage %d with reduce_scatter, wants 1",
             number(r, "gradient_predivide_factor"), stage);
    if (stage == 3 && says(r, "gradient_allreduce_op", "sum"))
        FAIL("gradient_allreduce_op", "\"sum\" excludes zero_optimization.stage 3");
    if (says(r, "gradient_allreduce_op", "sum") && says(r, "ztrain.parallel.mode", "dp"))
        FAIL("gradient_allreduce_op", "\"sum\" excludes ztrain.parallel.mode \"dp\", whose ranks share one loss");
    const struct zt_json_node *size = given(r, Z "allgather_bucket_size");
    if (size && size->whole && size->integer % 2)
        FAIL(Z "allgather_bucket_size", "%lld, wants an even number", (long long)size->integer);
}

/* fp32 gradients are divided where the loss is, by the samples of the step: the order of division changes rounding
 * alone. A sum is not divided. */
static void averaging(struct zt_reading *r) {
    static const char *const keys[] = { "prescale_gradients", "gradient_predivide_factor" };
    const bool sum = says(r, "gradient_allreduce_op", "sum");
    for (int i = 0; i < 2; i++) {
        struct zt_json_node *node = given(r, keys[i]);
        char value[96];
        if (!node || zt_value_is(node, i ? "1" : "false") || !(sum || says(r, "communication_data_type", "fp32")))
            continue;
        node->ignored = true;
        zt_json_node_show(node, value, sizeof value);
        zt_texts_add(r->arena, &r->config->without_effect, "%s = %s (%s)", keys[i], value,
                     sum ? "gradient_allreduce_op is \"sum\"" : "fp32 gradients are divided where the loss is");
    }
}

static void half_export(struct zt_reading *r) {
    static const char key[] = Z "stage3_gather_16bit_weights_on_model_save";
    struct zt_json_node *node = given(r, key);
    const bool half = on(r, "fp16.enabled") || on(r, "bf16.enabled");
    if (!node || !on(r, key) || (half && !r->config->lora.apart))
        return;
    node->ignored = true;
    zt_texts_add(r->arena, &r->config->without_effect, "%s = true (%s)", key,
                 half ? "ztrain.lora.export writes the adapters alone" : "the run is neither fp16 nor bf16");
}

/* The keys of each chosen type against one another. */
static void types(struct zt_reading *r) {
    const void *const params[ZT_KEY_KINDS] = { [ZT_KEY_OPTIMIZER] = r->config->optimizer.params,
                                               [ZT_KEY_SCHEDULER] = r->config->scheduler.params,
                                               [ZT_KEY_FORMAT] = r->config->data.params };
    for (enum zt_key_kind kind = 0; kind < ZT_KEY_KINDS; kind++) {
        const struct zt_key_owner *owner = r->table->chosen[kind];
        struct zt_key_problem problem;
        if (owner && owner->fits && !owner->fits(params[kind], &problem))
            FAIL(problem.key, "%s", problem.text);
    }
}

#define AUGMENT "ztrain.data.augment."

/* A change that has an object of its own is on where the object is given, unless its `enabled` says otherwise. */
static bool changes(const struct zt_reading *r, const char *object) {
    char enabled[96];
    snprintf(enabled, sizeof enabled, "%s.enabled", object);
    return given(r, enabled) ? on(r, enabled) : given(r, object) != NULL;
}

/* Two numbers of which the first is no larger than the second. */
static void ascending(struct zt_reading *r, const char *key) {
    const struct zt_json_node *node = given(r, key);
    if (node && node->kind == ZT_JSON_NODE_LIST && node->first->number > node->first->next->number)
        zt_key_fail(r, node, "[%.10g, %.10g], wants the smaller number first", node->first->number,
                    node->first->next->number);
}

static void augmentation(struct zt_reading *r) {
    static const char *const pairs[] = { "random_resized_crop.scale", "random_resized_crop.ratio",
                                         "random_erasing.scale", "random_erasing.ratio" };
    char key[96];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        snprintf(key, sizeof key, AUGMENT "%s", pairs[i]);
        ascending(r, key);
    }
    if (changes(r, AUGMENT "random_crop") && changes(r, AUGMENT "random_resized_crop"))
        FAIL(AUGMENT "random_crop", "excludes random_resized_crop: choose one");
}

static void not_above(struct zt_reading *r, const char *low, const char *high) {
    if ((given(r, low) || given(r, high)) && number(r, high) > 0 && number(r, low) > number(r, high))
        FAIL(low, "%.10g is above %s %.10g", number(r, low), high, number(r, high));
}

static void schedule_config(struct zt_reading *r) {
    static const struct {
        const char *type, *key;
    } wants[] = {
        { "fixed_linear", "total_curriculum_step" },
        { "fixed_linear", "difficulty_step" },
        { "fixed_root", "total_curriculum_step" },
        { "fixed_root", "difficulty_step" },
        { "fixed_root", "root_degree" },
        { "fixed_discrete", "difficulty" },
        { "fixed_discrete", "max_step" },
    };
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        char key[96];
        snprintf(key, sizeof key, "curriculum_learning.schedule_config.%s", wants[i].key);
        if (says(r, "curriculum_learning.schedule_type", wants[i].type) && !there(r, key))
            FAIL(key, "schedule_type \"%s\" needs schedule_config.%s", wants[i].type, wants[i].key);
    }
}

static void curriculum(struct zt_reading *r) {
    static const char *const wants[] = { "min_difficulty", "max_difficulty", "schedule_type" };
    if (on(r, "data_efficiency.data_sampling.dynamic_batching.enabled") &&
        !there(r, "data_efficiency.data_sampling.dynamic_batching.max_tokens"))
        FAIL("data_efficiency.data_sampling.dynamic_batching.max_tokens", "enabled needs max_tokens");
    if (!on(r, "curriculum_learning.enabled"))
        return;
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "curriculum_learning.%s", wants[i]);
        if (!there(r, key))
            FAIL(key, "enabled needs %s", wants[i]);
    }
    not_above(r, "curriculum_learning.min_difficulty", "curriculum_learning.max_difficulty");
    schedule_config(r);
}

static void tuning(struct zt_reading *r) {
    static const char *const batch[] = { "train_batch_size", "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps" };
    not_above(r, "autotuning.start_profile_step", "autotuning.end_profile_step");
    not_above(r, "autotuning.min_train_batch_size", "autotuning.max_train_batch_size");
    not_above(r, "autotuning.min_train_micro_batch_size_per_gpu", "autotuning.max_train_micro_batch_size_per_gpu");
    not_above(r, "elasticity.min_gpus", "elasticity.max_gpus");
    bool elastic = on(r, "elasticity.enabled") && !on(r, "elasticity.ignore_non_elastic_batch_info");
    for (size_t i = 0; elastic && i < 3; i++)
        if (given(r, batch[i]))
            FAIL(batch[i], "elasticity sets it: remove it, or set elasticity.ignore_non_elastic_batch_info");
}

static void parallel(struct zt_reading *r) {
#define P "ztrain.parallel."
    int stages = (int)number(r, "pipeline.stages");
    if (says(r, P "mode", "dp") && number(r, Z "stage") > 0)
        FAIL(P "mode", "\"dp\" excludes zero_optimization.stage %g", number(r, Z "stage"));
    if (says(r, P "mode", "dp") && says(r, "ztrain.plan", "auto"))
        FAIL("ztrain.plan", "\"auto\" excludes %smode \"dp\"", P);
    if (says(r, P "mode", "dp") && stages > 1)
        FAIL(P "mode", "\"dp\" excludes pipeline.stages %d", stages);
    if (says(r, P "mode", "dp") && !says(r, P "communicator", "auto") && !says(r, P "communicator", "thread"))
        FAIL(P "communicator", "\"%s\": mode \"dp\" is always threads", zt_keys_text(r, P "communicator"));
    if (number(r, P "chunks") > 1 && !says(r, P "schedule", "interleaved"))
        FAIL(P "chunks", "%g needs schedule \"interleaved\", found \"%s\"", number(r, P "chunks"),
             zt_keys_text(r, P "schedule"));
    if (replicated(r) && stages > 1)
        FAIL("optimizer.type", "%s excludes pipeline.stages %d", replicated(r)->name, stages);
    if (replicated(r) && says(r, P "mode", "dp"))
        FAIL("optimizer.type", "%s excludes ztrain.parallel.mode \"dp\", wants \"ddp\"", replicated(r)->name);
    if (says(r, P "mode", "dp") && on(r, P "sync_batch_norm"))
        FAIL(P "sync_batch_norm", "true: mode \"dp\" uses the statistics of replica 0, like torch.nn.DataParallel");
#undef P
}

static void data(struct zt_reading *r) {
#define D "ztrain.data."
    const struct zt_numbers *mean = &r->config->data.mean, *std = &r->config->data.std;
    const struct zt_key_owner *format = r->table->chosen[ZT_KEY_FORMAT];
    if (!there(r, D "format") && given(r, D "path"))
        FAIL(D "path", "needs ztrain.data.format");
    if (format && !format->computed && !there(r, D "path"))
        FAIL(D "format", "\"%s\" needs ztrain.data.path", zt_keys_text(r, D "format"));
    if (given(r, D "normalize.mean") && given(r, D "normalize.std") && mean->count != std->count)
        FAIL(D "normalize.mean", "%d numbers, std has %d", mean->count, std->count);
    if (there(r, D "normalize.mean") != there(r, D "normalize.std"))
        FAIL(D "normalize", "needs both mean and std");
#undef D
}

/* Lists a number as without effect where the loss is not `type`, which alone reads it. The default, 1, is not listed:
 * config.resolved.json has it for every loss. */
static void only_for(struct zt_reading *r, const char *key, const char *type) {
    if (given(r, key) && number(r, key) != 1 && !says(r, "ztrain.loss.type", type))
        zt_texts_add(r->arena, &r->config->without_effect, "%s = %g (only %s reads it)", key, number(r, key), type);
}

#define L "ztrain.loss."
static void class_weights(struct zt_reading *r) {
    const struct zt_json_node *list = given(r, L "class_weights");
    double sum = 0;
    if (!list || !list->first)
        return;
    for (const struct zt_json_node *item = list->first; item; item = item->next)
        sum += item->number;
    if (sum == 0)
        FAIL(L "class_weights", "all weights are 0");
    if (!given(r, L "type") || says(r, L "type", "cross_entropy") || says(r, L "type", "nll"))
        return;
    FAIL(L "class_weights", "belongs to cross_entropy and nll, found type \"%s\", which has no classes",
         zt_keys_text(r, L "type"));
    if (says(r, L "type", "bce_with_logits"))
        zt_key_hint(r, "PyTorch's pos_weight is not supported; ztrain.loss.weight weights samples or elements");
}

static void loss(struct zt_reading *r) {
    bool smooth = number(r, L "label_smoothing") > 0, typed = given(r, L "type") != NULL;
    if (smooth && typed && !says(r, L "type", "cross_entropy"))
        FAIL(L "label_smoothing", "%g belongs to cross_entropy, found type \"%s\"", number(r, L "label_smoothing"),
             zt_keys_text(r, L "type"));
    class_weights(r);
    if (zt_keys_text(r, L "weight")[0] && says(r, L "type", "output"))
        FAIL(L "weight", "excludes type \"output\": the graph computes its own loss and weights");
    if (given(r, L "output") && typed && !says(r, L "type", "output"))
        FAIL(L "output", "belongs to type \"output\", found \"%s\"", zt_keys_text(r, L "type"));
    only_for(r, L "beta", "smooth_l1");
    only_for(r, L "delta", "huber");
    const struct zt_json_node *groups = given(r, "ztrain.param_groups");
    for (const struct zt_json_node *item = groups ? groups->first : NULL; item; item = item->next) {
        if (!zt_json_node_child(item, "match"))
            zt_key_fail(r, item, "needs match");
        const struct zt_json_node *use = zt_json_node_child(item, "use_muon");
        if (use && use->kind == ZT_JSON_NODE_BOOL && !says(r, "optimizer.type", "Muon"))
            zt_key_fail(r, use, "needs optimizer.type \"Muon\"");
    }
#undef L
}

/* Reports a name that is tied twice: to itself, or in two groups. */
static void ties(struct zt_reading *r) {
    const struct zt_json_node *groups = given(r, "ztrain.tie");
    struct zt_map seen = { 0 };
    for (const struct zt_json_node *group = groups ? groups->first : NULL; group; group = group->next)
        for (const struct zt_json_node *name = group->first; name; name = name->next) {
            int before = zt_map_get(&seen, name->text, -1);
            if (before >= 0)
                zt_key_fail(r, name, "\"%s\" is in ztrain.tie[%d] already", name->text, before);
            zt_map_put(&seen, name->text, group->index);
        }
    zt_map_finish(&seen);
}

void zt_config_conflicts(struct zt_reading *r) {
    static void (*const rules[])(struct zt_reading *) = {
        needs, lora,       qat,    tag,      averaging, half_export, precision, sections_off, zero,
        types, curriculum, tuning, parallel, data,      loss,        ties,      augmentation, zt_config_check_monitors
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        rules[i](r);
}

/* Rates whose "auto" is the optimizer's rate. Without an optimizer the row's own number stays, and so it does for the
 * optimizer's other rates where it has none. */
static void rates_from_optimizer(struct zt_reading *r) {
    const bool has_rate = given(r, "optimizer.params.lr");
    for (int i = 0; i < r->table->count && r->table->chosen[ZT_KEY_OPTIMIZER]; i++)
        if (r->table->row[i]->auto_is_lr && r->node[i] && r->node[i]->automatic &&
            (has_rate || strncmp(r->table->row[i]->key, "optimizer.", strlen("optimizer.")) != 0)) {
            r->node[i]->number = r->config->optimizer.lr;
            zt_value_store(r, r->node[i], r->table->row[i]);
        }
}

static void derive_scheduler(struct zt_reading *r) {
#define P "scheduler.params."
    struct zt_config *config = r->config;
    rates_from_optimizer(r);
    bool warms_up = r->table->chosen[ZT_KEY_SCHEDULER] && zt_keys_exist(r, P "warmup_max_lr");
    if (warms_up && !given(r, P "warmup_max_lr") && r->table->chosen[ZT_KEY_OPTIMIZER] &&
        number(r, P "warmup_max_lr") != config->optimizer.lr)
        zt_texts_add(r->arena, &config->notes,
                     "scheduler.params.warmup_max_lr is not given: 0.001, not optimizer.params.lr %g",
                     config->optimizer.lr);
    double total = number(r, P "total_num_steps"), warmup = number(r, P "warmup_num_steps");
    if (total > 0 && total < warmup)
        zt_texts_add(r->arena, &config->notes, "scheduler.params.total_num_steps %.15g is below warmup_num_steps %.15g",
                     total, warmup);
#undef P
}

/* Keys that have one value alone. */
static void derive_fixed(struct zt_reading *r) {
    for (int i = 0; i < r->table->count; i++) {
        const struct zt_key_row *row = r->table->row[i];
        if (!row->always || !r->node[i] || zt_value_is(r->node[i], row->always))
            continue;
        zt_value_set(r, row, row->always);
        zt_texts_add(r->arena, &r->config->notes, "%s has no effect: %s", row->key, row->why);
    }
}

static bool is_given(const struct zt_settling *s, const char *key) {
    return given(s->reading, key) != NULL;
}

static void lists(const struct zt_settling *s, const char *text) {
    zt_texts_add(s->config->arena, &s->config->without_effect, "%s", text);
}

/* Defaults that depend on other keys of the type. */
static void settle_types(struct zt_reading *r) {
    const struct zt_settling settling = { .config = r->config, .given = is_given, .lists = lists, .reading = r };
    for (enum zt_key_kind kind = 0; kind < ZT_KEY_KINDS; kind++)
        if (r->table->chosen[kind] && r->table->chosen[kind]->settle)
            r->table->chosen[kind]->settle(&settling);
}

void zt_config_derive_overlap(struct zt_config *config) {
    struct zt_zero_config *zero = &config->zero;
    zero->overlap_comm = config->parallel.stages == 1 && (zero->overlap_open ? zero->stage == 3 : zero->overlap_asked);
}

static void derive_overlap(struct zt_reading *r) {
    struct zt_config *config = r->config;
    const struct zt_json_node *overlap = given(r, Z "overlap_comm");
    config->zero.overlap_open = !overlap || overlap->automatic;
    config->zero.overlap_asked = config->zero.overlap_comm;
    if (!config->zero.overlap_open && overlap->truth && config->parallel.stages > 1)
        zt_texts_add(r->arena, &config->notes, "zero_optimization.overlap_comm has no effect with pipeline stages");
    zt_config_derive_overlap(config);
}

static void derive_non_finite(struct zt_reading *r) {
    struct zt_config *config = r->config;
    const bool asked = given(r, "bf16.check_grad_overflow") && config->bf16_checks_overflow;
    if (config->bf16 && asked && !given(r, "ztrain.on_non_finite"))
        config->skip_non_finite = true;
}

/* DeepSpeed loads these settings as well, and its checkpointing module fails with them when the model runs. */
static void note_checkpointing(struct zt_reading *r) {
#define A "activation_checkpointing."
    const char *missing = !on(r, A "partition_activations")   ? "partition_activations"
                          : !there(r, A "number_checkpoints") ? "number_checkpoints"
                                                              : NULL;
    if (missing && on(r, A "contiguous_memory_optimization"))
        zt_texts_add(r->arena, &r->config->notes,
                     A "contiguous_memory_optimization needs " A "%s in DeepSpeed; here it has no effect", missing);
#undef A
}

static void derive_augmentation(struct zt_reading *r) {
    struct zt_augment_config *augment = &r->config->data.augment;
    augment->random_crop = changes(r, AUGMENT "random_crop");
    augment->resized_crop = changes(r, AUGMENT "random_resized_crop");
    augment->erase = changes(r, AUGMENT "random_erasing");
}

/* The evaluation data that stand beside the training data. */
static void derive_eval_path(struct zt_reading *r) {
    const struct zt_key_owner *format = r->table->chosen[ZT_KEY_FORMAT];
    struct zt_data_config *data_config = &r->config->data;
    if (!format || !format->eval_file || data_config->eval_path || !data_config->path)
        return;
    char *path = zt_path_join(data_config->path, format->eval_file);
    if (zt_file_exists(path))
        data_config->eval_path = zt_arena_strdup(r->arena, path);
    free(path);
}

void zt_config_derive(struct zt_reading *r, const struct zt_config_overrides *over) {
    struct zt_config *config = r->config;
    struct zt_data_config *data_config = &config->data;
    derive_scheduler(r);
    derive_overlap(r);
    derive_non_finite(r);
    derive_fixed(r);
    zt_config_derive_monitors(r);
    settle_types(r);
    config->recompute.enabled = zt_keys_checkpointing(r);
    note_checkpointing(r);
    derive_augmentation(r);
    derive_eval_path(r);
    if (over->evaluates && over->data && !data_config->eval_path)
        data_config->eval_path = data_config->path;
    bool classes =
        !config->loss.type || strcmp(config->loss.type, "cross_entropy") == 0 || strcmp(config->loss.type, "nll") == 0;
    if (!given(r, "ztrain.metrics"))
        config->accuracy = classes && data_config->eval_path;
    bool evaluated = data_config->eval_path && (config->accuracy || !says(r, "ztrain.checkpoint.best", "accuracy"));
    if (given(r, "ztrain.checkpoint.best") && config->checkpoint.best[0] && !evaluated)
        zt_texts_add(r->arena, &config->notes,
                     "ztrain.checkpoint.best has no effect: no %s is computed on evaluation data",
                     config->checkpoint.best);
}
