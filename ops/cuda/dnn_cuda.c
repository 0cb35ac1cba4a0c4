#include "ops/cuda/dnn_cuda.h"

#include "base/arena.h"
#include "base/disk_cache.h"
#include "ops/cuda/dnn_graph_cuda.h"

#include <stdlib.h>
#include <string.h>

/* CONFIGS: configurations with tensor cores come first and are many. */
enum { CONFIGS = 256, NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };
enum { RULE = 2 }; /* which engines are wanted: another number where is_wanted changes, as plans are kept */

/* ---- engines ---- */

static bool has(const cudnnBackendNumericalNote_t *notes, int64_t count, cudnnBackendNumericalNote_t note) {
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == note)
            return true;
    return false;
}

/* Engines of exact fp32 weight gradients that err by more than fp32's rounding and have no note of it, in cuDNN 9.19 on
 * an H100: a case of tests/ops/cases/conv.c (9 images, 80 channels) fails with them (docs/performance-gpu.md). */
static bool is_inexact(const struct zt_dnn *d, int64_t engine) {
    return d->graph.operation[0].kind == ZT_DNN_CONV_WEIGHT && (engine == 17 || engine == 67);
}

/* Whether an engine with these notes meets the conditions of dnn_cuda.h. */
static bool is_wanted(const struct zt_dnn *d, int64_t engine, const cudnnBackendNumericalNote_t *notes, int64_t count) {
    const bool fp32 = d->graph.tensor[0].dtype == ZT_FLOAT, exact = fp32 && !d->graph.tensor_cores;
    return !has(notes, count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
           !has(notes, count, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
           !(fp32 && has(notes, count, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) &&
           !(exact && (has(notes, count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ||
                       has(notes, count, CUDNN_NUMERICAL_NOTE_WINOGRAD) || is_inexact(d, engine)));
}

/* The same of a configuration; without readable notes it does not. */
static bool is_wanted_config(const struct zt_dnn *d, cudnnBackendDescriptor_t config) {
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[NOTES];
    int64_t count = 0, number = 0;
    bool read = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == CUDNN_STATUS_SUCCESS &&
                cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                         &engine) == CUDNN_STATUS_SUCCESS &&
                cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count,
                                         &number) == CUDNN_STATUS_SUCCESS &&
                cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES,
                                         &count, notes) == CUDNN_STATUS_SUCCESS;
    if (engine)
        cudnnBackendDestroyDescriptor(engine);
    return read && is_wanted(d, number, notes, count < NOTES ? count : NOTES);
}

/* A plan within the workspace limit from the attribute: a configuration, or a plan of the disk cache. */
static bool take(struct zt_dnn *d, const struct zt_dnn_attribute *of, struct zt_err *err) {
    const struct zt_dnn_attribute here = ONE(EXECUTION_PLAN_HANDLE, HANDLE, &d->handle);
    const struct zt_dnn_attribute elsewhere = ONE(EXECUTION_PLAN_DEVICEPROP, BACKEND_DESCRIPTOR, &d->properties);
    const struct zt_dnn_attribute list[] = { d->properties ? elsewhere : here, *of };
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, count = 0;
    if (!zt_dnn_good(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan), "making a plan",
                     err))
        return false;
    bool taken = zt_dnn_set(plan, list, 2, "making a plan", err) &&
                 zt_dnn_good(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                                      1, &count, &bytes),
                             "asking for its workspace", err);
    if (taken && bytes > d->workspace_most)
        taken = zt_fail(err, ZT_EXIT_RUN, "cuDNN, making a plan: wants %lld bytes of workspace, %lld are allowed",
                        (long long)bytes, (long long)d->workspace_most);
    if (!taken) {
        cudnnBackendDestroyDescriptor(plan);
        return false;
    }
    d->plan = d->owned[d->owned_count++] = plan;
    d->workspace_bytes = bytes;
    return true;
}

/* `why`: reason of the first refusal, by cuDNN or by the workspace limit; the next configuration may succeed. */
static bool take_config(struct zt_dnn *d, cudnnBackendDescriptor_t config, struct zt_err *why) {
    const struct zt_dnn_attribute of = ONE(EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, &config);
    return take(d, &of, why);
}

static bool fail_choice(int64_t all, int unwanted, const struct zt_err *refused, struct zt_err *err) {
    if (!all)
        return zt_fail(err, ZT_EXIT_RUN, "cuDNN has no engine for it");
    return zt_fail(err, ZT_EXIT_RUN,
                   "cuDNN has no engine for it among %lld: %d are not deterministic or do not compute as wanted%s%s",
                   (long long)all, unwanted, refused->count ? "; of the others the first fails: " : "",
                   refused->count ? refused->text[0] : "");
}

/* The first usable configuration; the heuristics rank them by expected time. */
static bool choose(struct zt_dnn *d, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, struct zt_err *err) {
    const struct zt_dnn_attribute list[] = {
        ONE(ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, &graph),
        ONE(ENGINEHEUR_MODE, HEUR_MODE, &mode),
        ONE(ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, &d->properties),
    };
    cudnnBackendDescriptor_t rule =
        zt_dnn_make(d, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, list, d->properties ? 3 : 2, "asking the heuristics", err);
    cudnnBackendDescriptor_t config[CONFIGS] = { 0 };
    struct zt_err refused = { 0 };
    int64_t count = 0;
    int unwanted = 0;
    bool made = rule != NULL, found = false;
    for (int i = 0; made && i < CONFIGS; i++)
        made = zt_dnn_good(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]),
                           "asking the heuristics", err);
    made = made && zt_dnn_good(cudnnBackendGetAttribute(rule, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &count, config),
                               "asking the heuristics", err);
    for (int i = 0; i < CONFIGS; i++) {
        const bool asked = made && !found && i < count, wanted = asked && is_wanted_config(d, config[i]);
        const bool taken = wanted && take_config(d, config[i], &refused);
        unwanted += asked && !wanted;
        found |= taken;
        if (taken)
            d->owned[d->owned_count++] = config[i];
        else if (config[i])
            cudnnBackendDestroyDescriptor(config[i]);
    }
    return found || (made && fail_choice(count, unwanted, &refused, err));
}

static bool choose_any(struct zt_dnn *d, struct zt_err *err) {
    const struct zt_dnn_attribute list[] = {
        LIST(OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, d->graph.operation_count, d->operation),
        ONE(OPERATIONGRAPH_HANDLE, HANDLE, &d->handle),
    };
    cudnnBackendDescriptor_t graph = zt_dnn_make(d, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, list,
                                                 d->properties ? 1 : 2, "making the operation graph", err);
    struct zt_err first = { 0 }, last = { 0 };
    if (!graph)
        return false;
    if (choose(d, graph, CUDNN_HEUR_MODE_A, &first) || choose(d, graph, CUDNN_HEUR_MODE_FALLBACK, &last))
        return true;
    return zt_fail(err, ZT_EXIT_RUN, "%s", first.text[0]);
}

/* ---- plans on disk ---- */

static bool restore(struct zt_dnn *d, const char *path, const char *key) {
    struct zt_text text = { 0 };
    struct zt_err ignored = { 0 };
    if (zt_disk_cache_read(path, key, &text)) {
        const struct zt_dnn_attribute of =
            LIST(EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, (int64_t)text.length, text.at);
        d->was_cached = take(d, &of, &ignored);
    }
    zt_text_finish(&text);
    return d->was_cached;
}

static void keep(const struct zt_dnn *d, const char *path, const char *key) {
    const cudnnBackendAttributeName_t name = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    struct zt_err ignored = { 0 };
    int64_t bytes = 0;
    if (cudnnBackendGetAttribute(d->plan, name, CUDNN_TYPE_CHAR, 0, &bytes, NULL) != CUDNN_STATUS_SUCCESS || bytes <= 0)
        return;
    struct zt_text text = { .at = zt_malloc((size_t)bytes), .length = (size_t)bytes, .room = (size_t)bytes };
    if (cudnnBackendGetAttribute(d->plan, name, CUDNN_TYPE_CHAR, bytes, &bytes, text.at) == CUDNN_STATUS_SUCCESS)
        zt_disk_cache_write(path, key, &text, &ignored);
    zt_text_finish(&text);
}

bool zt_dnn_plan(struct zt_dnn *d, const char *gpu, struct zt_err *err) {
    struct zt_text key = { 0 }, path = { 0 };
    zt_text_add(&key, "cuDNN %zu for %s, rule %d\n%s", cudnnGetVersion(), gpu, RULE, d->key.at);
    const bool named = zt_disk_cache_path(key.at, "cudnn.plan", &path);
    bool planned = named && restore(d, path.at, key.at);
    if (!planned) {
        planned = choose_any(d, err);
        if (planned && named)
            keep(d, path.at, key.at);
    }
    zt_text_finish(&key);
    zt_text_finish(&path);
    return planned;
}

bool zt_dnn_plan_for(struct zt_dnn *d, const char *properties, struct zt_err *err) {
    const struct zt_dnn_attribute list[] = {
        LIST(DEVICEPROP_JSON_REPRESENTATION, CHAR, (int64_t)strlen(properties), properties),
    };
    d->properties = MAKE(d, DEVICEPROP, list, "reading the properties of a GPU", err);
    return d->properties && zt_dnn_plan(d, properties, err);
}

bool zt_dnn_was_cached(const struct zt_dnn *d) {
    return d->was_cached;
}

size_t zt_dnn_workspace_bytes(const struct zt_dnn *d) {
    return (size_t)d->workspace_bytes;
}
