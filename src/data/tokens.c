/* Data format tokens: a stream of token numbers, for language models. A sample is T tokens in a row, its target the
 * tokens that follow each of them; samples do not overlap, and the rest of a file is left out. `path` is a file, or a
 * folder whose files *train*.bin are read in the order of their names.
 *
 * A file is a raw stream of little-endian uint16 or uint32 (nanoGPT's train.bin), or begins with llm.c's header: 256
 * int32, of which the first three are magic number, version and count of tokens. Magic 20240520 with version 1 has
 * uint16 tokens, 20240801 with version 7 uint32. */
#include "data/column.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/text.h"
#include "base/vec.h"
#include "config/rows.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_INTS = 256, HEADER = 4 * HEADER_INTS };
static const struct {
    int32_t magic, version;
    size_t token_bytes;
} headers[] = { { 20240520, 1, 2 }, { 20240801, 7, 4 } };

struct params {
    int wide; /* raw streams are uint32 */
    int64_t length;
};

struct part {
    char *path;
    struct zt_file_map map;
    const unsigned char *tokens;
    size_t token_bytes;
    int64_t first, samples; /* of the source */
};

enum role { TOKENS, NEXT_TOKENS, ONES, POSITIONS };
struct tokens {
    ZT_VEC(struct part) parts;
    int64_t length; /* T */
    enum role role[ZT_COLUMNS];
    int64_t below[ZT_COLUMNS]; /* 0: any token */
};

/* ---- files ---- */

static int32_t header_int(const struct zt_file_map *map, int i) {
    const unsigned char *at = map->data + 4 * i;
    return (int32_t)(at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
}

/* Sets the place and the count of the tokens of a file. */
static bool find_tokens(struct part *part, size_t raw_bytes, int64_t *count, struct zt_err *err) {
    const struct zt_file_map *map = &part->map;
    const int32_t magic = map->size >= HEADER ? header_int(map, 0) : 0;
    size_t header = 0;
    part->token_bytes = raw_bytes;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (magic == headers[i].magic && header_int(map, 1) == headers[i].version) {
            header = HEADER;
            part->token_bytes = headers[i].token_bytes;
        }
    const size_t bytes = map->size - header;
    part->tokens = map->data + header;
    *count = (int64_t)(bytes / part->token_bytes);
    if (bytes % part->token_bytes)
        return zt_fail(err, ZT_EXIT_DATA, "%s: holds %zu bytes of tokens, wants a multiple of %zu", part->path, bytes,
                       part->token_bytes);
    return !header || header_int(map, 2) == *count ||
           zt_fail(err, ZT_EXIT_DATA, "%s: holds %lld tokens, its header wants %lld", part->path, (long long)*count,
                   (long long)header_int(map, 2));
}

static bool add_file(struct zt_source *source, char *path, size_t raw_bytes, struct zt_err *err) {
    struct tokens *t = source->state;
    struct part part = { .path = path, .first = source->samples };
    int64_t count = 0;
    if (!zt_file_map(&part.map, path, ZT_EXIT_DATA, err)) {
        free(path);
        return false;
    }
    zt_mapped_checked_by_reader(part.map.mapped);
    bool ok = find_tokens(&part, raw_bytes, &count, err);
    part.samples = count > 0 ? (count - 1) / t->length : 0;
    source->samples += part.samples;
    zt_vec_push(&t->parts, part);
    return ok;
}

static int is_training(const struct dirent *entry) {
    return zt_glob("*train*.bin", entry->d_name);
}

static bool add_folder(struct zt_source *source, const char *folder, size_t raw_bytes, struct zt_err *err) {
    struct dirent **entries;
    bool ok = true;
    int count = scandir(folder, &entries, is_training, alphasort);
    if (count < 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        ok = ok && add_file(source, zt_path_join(folder, entries[i]->d_name), raw_bytes, err);
        free(entries[i]);
    }
    free(entries);
    return count ? ok : zt_fail(err, ZT_EXIT_DATA, "%s: has no file *train*.bin", folder);
}

/* ---- columns ---- */

/* The names by which exporters call the inputs of a language model that are no tokens. */
static bool find_role(const struct zt_want *want, enum role *role) {
    *role = want->use != ZT_WANT_INPUT                  ? NEXT_TOKENS
            : strcmp(want->name, "attention_mask") == 0 ? ONES
            : strcmp(want->name, "position_ids") == 0   ? POSITIONS
                                                        : TOKENS;
    return *role == TOKENS;
}

/* T: the config's length, or the size of the token input. */
static bool find_length(const struct zt_want *wants, int count, const struct params *params, int64_t *length,
                        struct zt_err *err) {
    enum role role;
    const struct zt_want *input = NULL;
    for (int i = 0; i < count; i++) {
        if (!find_role(&wants[i], &role))
            continue;
        if (input)
            return zt_fail(err, ZT_EXIT_DATA, "tokens: the model has two inputs of tokens, \"%s\" and \"%s\"",
                           input->name, wants[i].name);
        input = &wants[i];
    }
    if (!input)
        return zt_fail(err, ZT_EXIT_DATA, "tokens: the model has no input of tokens");
    const int64_t own = input->shape.rank == 1 ? input->shape.dim[0] : -1;
    *length = params && params->length ? params->length : own;
    if (*length > 0)
        return true;
    zt_fail(err, ZT_EXIT_DATA, "tokens: the model leaves the length of \"%s\" open", input->name);
    return zt_hint(err, "set ztrain.data.length");
}

static bool accept_want(struct zt_source *source, int i, const struct zt_want *want, const char *path,
                        struct zt_err *err) {
    struct tokens *t = source->state;
    const struct zt_shape shape = { 1, { t->length } };
    find_role(want, &t->role[i]);
    t->below[i] = want->below > 0 ? want->below : want->indexed;
    if (t->role[i] == NEXT_TOKENS && strcmp(want->name, "target") != 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: no column named \"%s\" (tokens has inputs and: target)", path,
                       want->name);
    const bool any = zt_dtype_in(want->dtype, ZT_ANY_INT); /* values that do not fit are found when they are read */
    const enum zt_dtype have = t->role[i] == ONES ? ZT_BOOL : any ? want->dtype : ZT_UINT16;
    return zt_column_accept(&source->column[i], want, have, &shape, path, err);
}

static void tokens_close(struct zt_source *source) {
    struct tokens *t = source->state;
    for (int i = 0; i < t->parts.count; i++) {
        zt_file_unmap(&t->parts.at[i].map);
        free(t->parts.at[i].path);
    }
    zt_vec_finish(&t->parts);
    free(t);
}

static bool tokens_intact(const struct zt_source *source, struct zt_err *err) {
    const struct tokens *t = source->state;
    for (int i = 0; i < t->parts.count; i++)
        if (!zt_mapped_intact(t->parts.at[i].map.mapped, err))
            return false;
    return true;
}

static bool tokens_open(struct zt_source *source, const struct zt_config *config, const char *path,
                        const struct zt_want *wants, int want_count, struct zt_err *err) {
    const struct params *params = config->data.params;
    const size_t raw_bytes = params && params->wide ? 4 : 2;
    if (!zt_column_no_normalize(config, "tokens", err))
        return false;
    struct tokens *t = source->state = zt_calloc(1, sizeof *t);
    bool ok = find_length(wants, want_count, params, &t->length, err) &&
              (zt_file_is_folder(path) ? add_folder(source, path, raw_bytes, err)
                                       : add_file(source, zt_strdup(path), raw_bytes, err));
    if (ok && source->samples == 0)
        ok = zt_fail(err, ZT_EXIT_DATA, "%s: has too few tokens for one sample of %lld and its next token", path,
                     (long long)t->length);
    for (int i = 0; i < want_count && ok; i++)
        ok = accept_want(source, i, &wants[i], path, err);
    ok = tokens_intact(source, err) && ok;
    if (!ok)
        tokens_close(source);
    return ok;
}

/* ---- reading ---- */

static int64_t token_at(const struct part *part, int64_t i) {
    const unsigned char *at = part->tokens + (size_t)i * part->token_bytes;
    const int64_t low = at[0] | at[1] << 8;
    return part->token_bytes == 2 ? low : low | (int64_t)at[2] << 16 | (int64_t)at[3] << 24;
}

static bool fits(const struct zt_source *source, int column, int64_t token) {
    const struct tokens *t = source->state;
    const enum zt_dtype dtype = source->column[column].dtype;
    const int bits = 8 * (int)zt_dtype_bytes(dtype) - (zt_dtype_in(dtype, ZT_ANY_SIGNED) ? 1 : 0);
    return (t->below[column] <= 0 || token < t->below[column]) && (bits >= 63 || token >> bits == 0);
}

static bool read_tokens(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    const struct tokens *t = source->state;
    const struct part *part = t->parts.at;
    while (index >= part->first + part->samples)
        part++;
    const int64_t from = (index - part->first) * t->length + (t->role[column] == NEXT_TOKENS);
    for (int64_t i = 0; i < t->length; i++) {
        const int64_t token = token_at(part, from + i);
        if (!fits(source, column, token))
            return t->below[column] > 0
                       ? zt_fail(err, ZT_EXIT_DATA,
                                 "%s: column \"%s\", token %lld: value %lld is out of range, wants 0..%lld", part->path,
                                 source->column[column].name, (long long)(from + i), (long long)token,
                                 (long long)t->below[column] - 1)
                       : zt_fail(err, ZT_EXIT_DATA, "%s: token %lld: value %lld does not fit column \"%s\"", part->path,
                                 (long long)(from + i), (long long)token, source->column[column].name);
        zt_store_int(source->column[column].dtype, to, i, token);
    }
    return true;
}

static bool tokens_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    const struct tokens *t = source->state;
    if (t->role[column] == TOKENS || t->role[column] == NEXT_TOKENS)
        return read_tokens(source, column, index, to, err);
    for (int64_t i = 0; i < t->length; i++)
        zt_store_int(source->column[column].dtype, to, i, t->role[column] == ONES ? 1 : i);
    return true;
}

static const struct zt_key_choice widths[] = { { .name = "uint16" }, { .name = "uint32" }, { 0 } };
static const struct zt_key_row keys[] = {
    { .key = "ztrain.data.token_type", INDEX(widths), DEF("uint16"), PLACE(ZT_IN_FORMAT, struct params, wide) },
    { .key = "ztrain.data.length", COUNT(0, 1 << 24), DEF("0"), PLACE(ZT_IN_FORMAT, struct params, length) },
    { 0 },
};

const struct zt_format zt_format_tokens = {
    .type = { .name = "tokens", .keys = keys, .bytes = sizeof(struct params), .eval_file = "val.bin" },
    .open = tokens_open,
    .read = tokens_read,
    .intact = tokens_intact,
    .close = tokens_close,
};
