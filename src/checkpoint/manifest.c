/* Writing and reading of manifest.json. Its last member is the checksum of all text before that line, so that a damaged
 * manifest is detected before it is used. */
#include "checkpoint/format.h"

#include "base/crc.h"
#include "base/map.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* VERSION_PARTS: with parts, which older programs would not look for. */
enum { VERSION = 1, VERSION_PARTS = 2 };

/* The last line, and its digits. */
#define LAST_LINE "  \"crc32c\": \"%08x\"\n}\n"
enum { LAST_BYTES = sizeof LAST_LINE - 1 + 8 - 4 };

static void add_checksums(const uint32_t *crc, int64_t count, struct zt_text *to) {
    for (int64_t i = 0; i < count; i++)
        zt_text_add(to, "%s\"%08x\"", i ? ", " : "[", crc[i]);
    zt_text_add(to, count ? "]" : "[]");
}

/* `host`: of a part; NULL: none. */
static void add_file(const struct zt_file_sums *sums, const char *name, const char *host, struct zt_text *to) {
    zt_text_add(to, "    {\"name\": \"%s\"", name);
    if (host) {
        zt_text_add(to, ", \"host\": ");
        zt_stored_quote(to, host);
    }
    zt_text_add(to, ", \"bytes\": %lld, \"block_bytes\": %d, \"crc32c\": ", (long long)sums->bytes, ZT_BLOCK_BYTES);
    add_checksums(sums->crc, zt_block_count(sums->bytes), to);
    if (sums->tensors) {
        zt_text_add(to, ", \"tensor_crc32c\": ");
        add_checksums(sums->tensor_crc, sums->tensors, to);
    }
    zt_text_add(to, "}");
}

static void add_files(const struct zt_manifest *m, struct zt_text *to) {
    char name[ZT_PART_NAME];
    for (int f = 0; f < m->files; f++) {
        zt_text_add(to, f ? ",\n" : "");
        add_file(&m->file[f], zt_stored_names[f], NULL, to);
    }
    for (int i = 0; i < m->part_count; i++) {
        zt_part_name(name, i, m->part_count);
        zt_text_add(to, i ? ",\n" : "");
        add_file(&m->parts[i].sums, name, m->parts[i].host, to);
    }
    zt_text_add(to, "\n");
}

/* Adds a value per parameter group: a number of one group, else a list. */
static void add_by_group(const char *name, const double *value, int groups, struct zt_text *to) {
    zt_text_add(to, "\"%s\": %s", name, groups == 1 ? "" : "[");
    for (int g = 0; g < groups; g++)
        zt_text_add(to, "%s%.17g", g ? ", " : "", value[g]);
    zt_text_add(to, groups == 1 ? "" : "]");
}

/* Without a best value yet, "best" is null. */
static void add_schedule(const struct zt_lr_state *s, struct zt_text *to) {
    zt_text_add(to, ",\n  \"schedule\": {");
    add_by_group("lr", s->lr, s->groups, to);
    zt_text_add(to, ", \"best\": ");
    zt_text_add(to, s->has_best ? "%.17g" : "null", s->best);
    zt_text_add(to, ", \"bad_epochs\": %lld, \"cooldown\": %lld, \"epoch_loss\": %.17g, \"epoch_samples\": %lld",
                (long long)s->bad_epochs, (long long)s->cooldown, s->epoch_loss, (long long)s->epoch_samples);
    if (s->lr_sum[0] > 0) {
        zt_text_add(to, ", ");
        add_by_group("lr_sum", s->lr_sum, s->groups, to);
    }
    zt_text_add(to, "}");
}

/* Names and shapes of the weights, whose slices in the parts have neither. */
static void add_weights(const struct zt_stored_file *weights, struct zt_text *to) {
    zt_text_add(to, "\n  },\n  \"weights\": {");
    for (int i = 0; i < weights->count; i++) {
        zt_text_add(to, i ? ",\n    " : "\n    ");
        zt_stored_quote(to, weights->tensors[i].name);
        zt_text_add(to, ": ");
        zt_stored_add_shape(to, &weights->tensors[i].shape);
    }
}

void zt_manifest_write(const struct zt_manifest *m, struct zt_text *to) {
    to->length = 0;
    zt_text_add(to, "{\n  \"format\": \"ztrain checkpoint\",\n  \"version\": %d,\n",
                m->part_count ? VERSION_PARTS : VERSION);
    zt_text_add(to, "  \"step\": %lld,\n  \"epoch\": %lld,\n  \"batch\": %lld,\n  \"updates\": %lld,\n",
                (long long)m->step, (long long)m->epoch, (long long)m->batch, (long long)m->updates);
    zt_text_add(to, "  \"samples\": %lld,\n  \"seed\": \"%llu\",\n  \"model\": \"%08x\",\n  \"optimizer\": ",
                (long long)m->samples, (unsigned long long)m->seed, m->model);
    zt_stored_quote(to, m->optimizer);
    if (m->scale > 0)
        zt_text_add(to, ",\n  \"loss_scale\": {\"scale\": %.17g, \"since_overflow\": %lld, \"hysteresis\": %lld}",
                    m->scale, (long long)m->since_overflow, (long long)m->hysteresis);
    if (m->observes)
        add_schedule(&m->lr_state, to);
    if (m->best_metric) {
        zt_text_add(to, ",\n  \"best\": {\"metric\": ");
        zt_stored_quote(to, m->best_metric);
        zt_text_add(to, ", \"value\": %.17g, \"step\": %lld}", m->best_value, (long long)m->best_step);
    }
    if (m->client_state)
        zt_text_add(to, ",\n  \"client_state\": %s", m->client_state);
    zt_text_add(to, ",\n  \"config\": {");
    for (int i = 0; i < m->key_count; i++) {
        zt_text_add(to, i ? ",\n    " : "\n    ");
        zt_stored_quote(to, m->keys[i].key);
        zt_text_add(to, ": %s", m->keys[i].value);
    }
    if (m->weights)
        add_weights(m->weights, to);
    zt_text_add(to, "\n  },\n  \"files\": [\n");
    add_files(m, to);
    zt_text_add(to, "  ],\n");
    zt_text_add(to, LAST_LINE, zt_crc32c(0, to->at, to->length));
}

/* ---- reading ---- */

static bool member(const cJSON *root, const char *name, int64_t *to, struct zt_err *err) {
    return zt_stored_whole(cJSON_GetObjectItemCaseSensitive(root, name), to) ||
           zt_fail(err, ZT_EXIT_DATA, "\"%s\" is no whole number", name);
}

static const char *text_of(const cJSON *root, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* Parses exactly eight hexadecimal digits. */
static bool hexadecimal(const char *text, uint32_t *to) {
    *to = 0;
    if (!text || strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8)
        return false;
    *to = (uint32_t)strtoul(text, NULL, 16);
    return true;
}

/* Reads a list of checksums into `to`, which has room for all of them. */
static bool read_checksums(const cJSON *list, const char *name, uint32_t *to, struct zt_err *err) {
    const cJSON *crc;
    int64_t at = 0;
    cJSON_ArrayForEach(crc, list) {
        if (!hexadecimal(cJSON_IsString(crc) ? crc->valuestring : NULL, &to[at++]))
            return zt_fail(err, ZT_EXIT_DATA, "%s: checksum %lld is invalid", name, (long long)at - 1);
    }
    return true;
}

/* Older checkpoints have no checksums of tensors. */
static bool read_tensor_checksums(struct zt_file_sums *to, const cJSON *item, const char *name, struct zt_arena *arena,
                                  struct zt_err *err) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "tensor_crc32c");
    if (list && !cJSON_IsArray(list))
        return zt_fail(err, ZT_EXIT_DATA, "%s: \"tensor_crc32c\" is no list", name);
    to->tensors = cJSON_GetArraySize(list);
    to->tensor_crc = ZT_NEW_N(arena, uint32_t, to->tensors + 1);
    return read_checksums(list, name, to->tensor_crc, err);
}

static bool read_file(struct zt_file_sums *to, const cJSON *item, const char *wanted, struct zt_arena *arena,
                      struct zt_err *err) {
    const char *name = text_of(item, "name");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "crc32c");
    int64_t block = 0;
    if (!name || strcmp(name, wanted) != 0)
        return zt_fail(err, ZT_EXIT_DATA, "\"files\" does not name %s", wanted);
    if (!member(item, "bytes", &to->bytes, err) || !member(item, "block_bytes", &block, err))
        return zt_err_within(err, 0, "%s", wanted);
    int64_t count = zt_block_count(to->bytes);
    if (block != ZT_BLOCK_BYTES || !cJSON_IsArray(list) || cJSON_GetArraySize(list) != count)
        return zt_fail(err, ZT_EXIT_DATA, "%s: the list of checksums does not fit its %lld bytes", wanted,
                       (long long)to->bytes);
    to->crc = ZT_NEW_N(arena, uint32_t, count + 1);
    return read_checksums(list, wanted, to->crc, err) && read_tensor_checksums(to, item, wanted, arena, err);
}

static bool read_whole_files(struct zt_manifest *m, const cJSON *files, struct zt_arena *arena, struct zt_err *err) {
    const cJSON *item;
    int at = 0;
    m->files = cJSON_IsArray(files) ? cJSON_GetArraySize(files) : 0;
    if (m->files < ZT_STORED_FILES - 1 || m->files > ZT_STORED_FILES)
        return zt_fail(err, ZT_EXIT_DATA, "\"files\" does not name %d or %d files", ZT_STORED_FILES - 1,
                       ZT_STORED_FILES);
    cJSON_ArrayForEach(item, files) {
        if (!read_file(&m->file[at], item, zt_stored_names[at], arena, err))
            return false;
        at++;
    }
    return true;
}

static bool read_parts(struct zt_manifest *m, const cJSON *files, struct zt_arena *arena, struct zt_err *err) {
    const cJSON *item;
    char name[ZT_PART_NAME];
    int at = 0;
    m->part_count = cJSON_IsArray(files) ? cJSON_GetArraySize(files) : 0;
    if (!m->part_count)
        return zt_fail(err, ZT_EXIT_DATA, "\"files\" names no part");
    m->parts = ZT_NEW_N(arena, struct zt_part_sums, m->part_count);
    cJSON_ArrayForEach(item, files) {
        const char *host = text_of(item, "host");
        zt_part_name(name, at, m->part_count);
        if (!host)
            return zt_fail(err, ZT_EXIT_DATA, "%s: \"host\" is missing", name);
        m->parts[at].host = zt_arena_strdup(arena, host);
        if (!read_file(&m->parts[at].sums, item, name, arena, err))
            return false;
        at++;
    }
    return true;
}

static bool read_best(struct zt_manifest *m, const cJSON *best, struct zt_arena *arena, struct zt_err *err) {
    const char *metric = text_of(best, "metric");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(best, "value");
    if (!best)
        return true;
    if (!metric || !cJSON_IsNumber(value) || !isfinite(value->valuedouble))
        return zt_fail(err, ZT_EXIT_DATA, "\"best\" has no metric and value");
    m->best_metric = zt_arena_strdup(arena, metric);
    m->best_value = value->valuedouble;
    return member(best, "step", &m->best_step, err);
}

static bool read_client_state(struct zt_manifest *m, const cJSON *state, struct zt_arena *arena, struct zt_err *err) {
    if (!state)
        return true;
    if (!cJSON_IsObject(state))
        return zt_fail(err, ZT_EXIT_DATA, "\"client_state\" is no object");
    char *text = cJSON_PrintUnformatted(state);
    m->client_state = text ? zt_arena_strdup(arena, text) : NULL;
    cJSON_free(text);
    return m->client_state || zt_fail(err, ZT_EXIT_RUN, "out of memory");
}

/* Checkpoints of runs without a dynamic loss scale lack this member. */
static bool read_scale(struct zt_manifest *m, const cJSON *scale, struct zt_err *err) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(scale, "scale");
    if (!scale)
        return true;
    if (!cJSON_IsNumber(value) || !isfinite(value->valuedouble) || value->valuedouble <= 0)
        return zt_fail(err, ZT_EXIT_DATA, "\"loss_scale\" has no scale above 0");
    m->scale = value->valuedouble;
    if (!member(scale, "since_overflow", &m->since_overflow, err) || !member(scale, "hysteresis", &m->hysteresis, err))
        return zt_err_within(err, 0, "\"loss_scale\"");
    return (m->since_overflow > 0 && m->hysteresis > 0) ||
           zt_fail(err, ZT_EXIT_DATA, "\"loss_scale\" counts from 1, found %lld and %lld", (long long)m->since_overflow,
                   (long long)m->hysteresis);
}

static bool real(const cJSON *root, const char *name, double *to, struct zt_err *err) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return zt_fail(err, ZT_EXIT_DATA, "\"%s\" is no number", name);
    *to = item->valuedouble;
    return true;
}

/* Reads a number, or a list of `groups` numbers. */
static bool read_by_group(const cJSON *root, const char *name, double *to, int groups, struct zt_err *err) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, name), *item;
    int count = 0;
    if (!cJSON_IsArray(list))
        return groups == 1 ? real(root, name, to, err) : zt_fail(err, ZT_EXIT_DATA, "\"%s\" is no list", name);
    if (cJSON_GetArraySize(list) != groups)
        return zt_fail(err, ZT_EXIT_DATA, "\"%s\" does not have %d values", name, groups);
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
            return zt_fail(err, ZT_EXIT_DATA, "\"%s\" is no list of numbers", name);
        to[count++] = item->valuedouble;
    }
    return true;
}

/* Only runs whose learning-rate rule follows a value have this member. */
static bool read_schedule(struct zt_manifest *m, const cJSON *item, struct zt_arena *arena, struct zt_err *err) {
    struct zt_lr_state *s = &m->lr_state;
    m->observes = item != NULL;
    if (!item)
        return true;
    const bool local = cJSON_GetObjectItemCaseSensitive(item, "lr_sum") != NULL; /* of 1-bit optimizers alone */
    const cJSON *rates = cJSON_GetObjectItemCaseSensitive(item, "lr");
    s->groups = cJSON_IsArray(rates) ? cJSON_GetArraySize(rates) : 1;
    s->lr = ZT_NEW_N(arena, double, s->groups + 1);
    s->lr_sum = ZT_NEW_N(arena, double, s->groups + 1);
    s->has_best = !cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(item, "best"));
    return (read_by_group(item, "lr", s->lr, s->groups, err) && (!s->has_best || real(item, "best", &s->best, err)) &&
            (!local || read_by_group(item, "lr_sum", s->lr_sum, s->groups, err)) &&
            real(item, "epoch_loss", &s->epoch_loss, err) && member(item, "bad_epochs", &s->bad_epochs, err) &&
            member(item, "cooldown", &s->cooldown, err) && member(item, "epoch_samples", &s->epoch_samples, err)) ||
           zt_err_within(err, 0, "\"schedule\"");
}

/* Older checkpoints in parts lack this member. */
static bool read_weights(struct zt_manifest *m, const cJSON *list, struct zt_arena *arena, struct zt_err *err) {
    struct zt_stored_file *file = ZT_NEW(arena, struct zt_stored_file);
    struct zt_map seen = { 0 };
    struct zt_text head = { 0 };
    const char *wrong = NULL;
    const cJSON *item;
    int64_t bytes = 0;
    if (!list)
        return true;
    if (!cJSON_IsObject(list))
        return zt_fail(err, ZT_EXIT_DATA, "\"weights\" is no object");
    *file =
        (struct zt_stored_file){ .tensors = ZT_NEW_N(arena, struct zt_stored_tensor, cJSON_GetArraySize(list) + 1) };
    cJSON_ArrayForEach(item, list) {
        struct zt_stored_tensor *t = &file->tensors[file->count++];
        *t = (struct zt_stored_tensor){ .name = zt_arena_strdup(arena, item->string ? item->string : "") };
        wrong = zt_map_get(&seen, t->name, -1) >= 0 ? "appears twice" : zt_stored_shape(item, t);
        if (!wrong && __builtin_add_overflow(bytes, t->bytes, &bytes))
            wrong = "its shape is larger than any file";
        if (wrong) {
            zt_fail(err, ZT_EXIT_DATA, "\"weights\": tensor \"%.200s\": %s", t->name, wrong);
            break;
        }
        zt_map_put(&seen, t->name, file->count);
    }
    zt_map_finish(&seen);
    if (wrong)
        return false;
    zt_stored_layout(file, &head);
    zt_text_finish(&head);
    m->weights = file;
    return true;
}

static bool read_keys(struct zt_manifest *m, const cJSON *config, struct zt_arena *arena, struct zt_err *err) {
    const cJSON *item;
    if (!cJSON_IsObject(config))
        return zt_fail(err, ZT_EXIT_DATA, "\"config\" is missing");
    m->keys = ZT_NEW_N(arena, struct zt_recorded_key, cJSON_GetArraySize(config) + 1);
    cJSON_ArrayForEach(item, config) {
        char *value = cJSON_PrintUnformatted(item);
        if (!value)
            return zt_fail(err, ZT_EXIT_RUN, "out of memory");
        m->keys[m->key_count++] = (struct zt_recorded_key){ zt_arena_strdup(arena, item->string ? item->string : ""),
                                                            zt_arena_strdup(arena, value) };
        cJSON_free(value);
    }
    return true;
}

static bool read_seed(struct zt_manifest *m, const char *text, struct zt_err *err) {
    int64_t seed;
    if (!text || !zt_text_number(text, &seed) || seed < 0)
        return zt_fail(err, ZT_EXIT_DATA, "\"seed\" is no whole number");
    m->seed = (uint64_t)seed;
    return true;
}

static bool read_root(struct zt_manifest *m, const cJSON *root, struct zt_arena *arena, struct zt_err *err) {
    const char *format = text_of(root, "format"), *optimizer = text_of(root, "optimizer");
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(root, "files");
    int64_t version = 0;
    if (!format || strcmp(format, "ztrain checkpoint") != 0)
        return zt_fail(err, ZT_EXIT_DATA, "not the manifest of a ztrain checkpoint");
    if (!member(root, "version", &version, err))
        return false;
    if (version != VERSION && version != VERSION_PARTS)
        return zt_fail(err, ZT_EXIT_DATA, "format version %lld, this program supports up to %d", (long long)version,
                       VERSION_PARTS);
    if (!member(root, "step", &m->step, err) || !member(root, "epoch", &m->epoch, err) ||
        !member(root, "batch", &m->batch, err) || !member(root, "updates", &m->updates, err) ||
        !member(root, "samples", &m->samples, err) || !read_seed(m, text_of(root, "seed"), err))
        return false;
    if (m->updates > m->step)
        return zt_fail(err, ZT_EXIT_DATA, "%lld updates in %lld steps", (long long)m->updates, (long long)m->step);
    if (!hexadecimal(text_of(root, "model"), &m->model))
        return zt_fail(err, ZT_EXIT_DATA, "\"model\" is not a hash");
    if (!optimizer)
        return zt_fail(err, ZT_EXIT_DATA, "\"optimizer\" is missing");
    m->optimizer = zt_arena_strdup(arena, optimizer);
    if (!(version == VERSION ? read_whole_files : read_parts)(m, files, arena, err) ||
        !read_weights(m, cJSON_GetObjectItemCaseSensitive(root, "weights"), arena, err))
        return false;
    return read_scale(m, cJSON_GetObjectItemCaseSensitive(root, "loss_scale"), err) &&
           read_schedule(m, cJSON_GetObjectItemCaseSensitive(root, "schedule"), arena, err) &&
           read_best(m, cJSON_GetObjectItemCaseSensitive(root, "best"), arena, err) &&
           read_client_state(m, cJSON_GetObjectItemCaseSensitive(root, "client_state"), arena, err) &&
           read_keys(m, cJSON_GetObjectItemCaseSensitive(root, "config"), arena, err);
}

bool zt_manifest_read(struct zt_manifest *m, const void *data, size_t bytes, struct zt_arena *arena,
                      struct zt_err *err) {
    char last[LAST_BYTES + 1];
    const char *text = data;
    *m = (struct zt_manifest){ 0 };
    if (bytes < LAST_BYTES || bytes > ZT_STORED_TEXT_MAX)
        return zt_fail(err, ZT_EXIT_DATA, "%zu bytes, a manifest has %d to %d", bytes, LAST_BYTES, ZT_STORED_TEXT_MAX);
    m->own_crc = zt_crc32c(0, text, bytes - LAST_BYTES);
    snprintf(last, sizeof last, LAST_LINE, m->own_crc);
    if (memcmp(text + bytes - LAST_BYTES, last, LAST_BYTES) != 0)
        return zt_fail(err, ZT_EXIT_DATA, "damaged: the text does not match the checksum in its last line");
    cJSON *root = cJSON_ParseWithLength(text, bytes);
    bool ok = root ? read_root(m, root, arena, err) : zt_fail(err, ZT_EXIT_DATA, "no JSON");
    cJSON_Delete(root);
    return ok;
}

bool zt_manifest_load(struct zt_manifest *m, const char *folder, struct zt_arena *arena, struct zt_err *err) {
    struct zt_file_map map;
    char *path = zt_path_join(folder, ZT_MANIFEST);
    int before = err->count;
    bool ok = zt_file_map(&map, path, ZT_EXIT_DATA, err);
    if (ok) {
        ok = zt_manifest_read(m, map.data, map.size, arena, err) || zt_err_within(err, before, "%s", path);
        ok = zt_file_close(&map, ok, err);
    }
    free(path);
    return ok;
}
