/* Safetensors files: writing and reading of the header. */
#include "checkpoint/format.h"

#include "base/crc.h"
#include "base/map.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, ALIGN = 64 };

const char *const zt_stored_names[ZT_STORED_FILES] = { "weights.safetensors", "optimizer.safetensors",
                                                       "ranks.safetensors" };

void zt_stored_begin(void) {
    cJSON_InitHooks(&(cJSON_Hooks){ zt_malloc, free });
}

void zt_stored_quote(struct zt_text *to, const char *text) {
    zt_text_add(to, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            zt_text_add(to, "\\%c", *p);
        else if (*p < 0x20)
            zt_text_add(to, "\\u%04x", *p);
        else
            zt_text_add_bytes(to, p, 1);
    }
    zt_text_add(to, "\"");
}

void zt_stored_add_shape(struct zt_text *to, const struct zt_shape *shape) {
    for (int k = 0; k < shape->rank; k++)
        zt_text_add(to, "%s%lld", k ? ", " : "[", (long long)shape->dim[k]);
    zt_text_add(to, shape->rank ? "]" : "[]");
}

void zt_stored_layout(struct zt_stored_file *file, struct zt_text *head) {
    struct zt_text json = { 0 };
    int64_t data = 0;
    for (int i = 0; i < file->count; i++) {
        struct zt_stored_tensor *t = &file->tensors[i];
        t->at = data;
        t->bytes = zt_shape_count(&t->shape) * (int64_t)sizeof(float);
        data += t->bytes;
        zt_text_add(&json, i ? ", " : "{");
        zt_stored_quote(&json, t->name);
        zt_text_add(&json, ": {\"dtype\": \"F32\", \"shape\": ");
        zt_stored_add_shape(&json, &t->shape);
        zt_text_add(&json, ", \"data_offsets\": [%lld, %lld]}", (long long)t->at, (long long)data);
    }
    zt_text_add(&json, file->count ? "}" : "{}");
    while ((LENGTH_BYTES + json.length) % ALIGN)
        zt_text_add(&json, " ");
    unsigned char length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (unsigned char)(json.length >> 8 * i);
    head->length = 0;
    zt_text_add_bytes(head, length, sizeof length);
    zt_text_add_bytes(head, json.at, json.length);
    zt_text_finish(&json);
    for (int i = 0; i < file->count; i++)
        file->tensors[i].at += (int64_t)head->length;
    file->bytes = (int64_t)head->length + data;
}

/* ---- reading ---- */

struct reader {
    struct zt_stored_file *file;
    int64_t data_at, data_bytes, at; /* at: offset at which the next tensor must begin */
    struct zt_map seen;
    struct zt_arena *arena;
    struct zt_err *err;
};

bool zt_stored_whole(const cJSON *item, int64_t *to) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > 9007199254740992.0 ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *to = (int64_t)item->valuedouble;
    return true;
}

static bool fail(struct reader *r, const char *name, const char *what) {
    return zt_fail(r->err, ZT_EXIT_DATA, "tensor \"%.200s\": %s", name, what);
}

const char *zt_stored_shape(const cJSON *list, struct zt_stored_tensor *t) {
    const cJSON *dim;
    int64_t count = 1;
    if (!cJSON_IsArray(list))
        return "shape is missing";
    cJSON_ArrayForEach(dim, list) {
        if (t->shape.rank == ZT_MAX_RANK)
            return "more than 8 axes";
        int64_t *to = &t->shape.dim[t->shape.rank++];
        if (!zt_stored_whole(dim, to))
            return "a dimension is not a whole number";
        if (__builtin_mul_overflow(count, *to, &count))
            return "its shape is larger than any file";
    }
    return __builtin_mul_overflow(count, (int64_t)sizeof(float), &t->bytes) ? "its shape is larger than any file"
                                                                            : NULL;
}

static bool read_tensor(struct reader *r, const cJSON *item) {
    const char *name = item->string ? item->string : "";
    struct zt_stored_tensor *t = &r->file->tensors[r->file->count];
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype"),
                *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    int64_t first, last;
    *t = (struct zt_stored_tensor){ .name = zt_arena_strdup(r->arena, name) };
    if (zt_map_get(&r->seen, t->name, -1) >= 0)
        return fail(r, name, "appears twice");
    zt_map_put(&r->seen, t->name, r->file->count);
    if (!cJSON_IsString(dtype) || strcmp(dtype->valuestring, "F32") != 0)
        return fail(r, name, "dtype is not F32");
    const char *wrong = zt_stored_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), t);
    if (wrong)
        return fail(r, name, wrong);
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !zt_stored_whole(offsets->child, &first) ||
        !zt_stored_whole(offsets->child->next, &last))
        return fail(r, name, "data_offsets are not two whole numbers");
    if (first != r->at || last < first || last - first != t->bytes)
        return fail(r, name, "data_offsets do not match its shape and the previous tensor");
    if (last > r->data_bytes)
        return fail(r, name, "ends after the end of the file");
    t->at = r->data_at + first;
    r->at = last;
    r->file->count++;
    return true;
}

static bool read_header(struct reader *r, const cJSON *root) {
    if (!cJSON_IsObject(root))
        return zt_fail(r->err, ZT_EXIT_DATA, "the header is not a JSON object");
    r->file->tensors = ZT_NEW_N(r->arena, struct zt_stored_tensor, cJSON_GetArraySize(root) + 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, root) {
        const bool metadata = item->string && strcmp(item->string, ZT_STORED_METADATA) == 0 && cJSON_IsObject(item);
        if (!metadata && !read_tensor(r, item))
            return false;
    }
    if (r->at != r->data_bytes)
        return zt_fail(r->err, ZT_EXIT_DATA, "%lld bytes of data, the tensors take %lld", (long long)r->data_bytes,
                       (long long)r->at);
    return true;
}

bool zt_stored_read(struct zt_stored_file *file, const struct zt_file_map *map, struct zt_arena *arena,
                    struct zt_err *err) {
    uint64_t length = 0;
    *file = (struct zt_stored_file){ .bytes = (int64_t)map->size };
    if (map->size < LENGTH_BYTES)
        return zt_fail(err, ZT_EXIT_DATA, "%zu bytes, too few for a header", map->size);
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)map->data[i] << 8 * i;
    if (length > map->size - LENGTH_BYTES || length > ZT_STORED_TEXT_MAX)
        return zt_fail(err, ZT_EXIT_DATA, "a header of %llu bytes in a file of %zu", (unsigned long long)length,
                       map->size);
    const char *end, *text = (const char *)map->data + LENGTH_BYTES;
    cJSON *root = cJSON_ParseWithLengthOpts(text, (size_t)length, &end, false);
    struct reader r = { .file = file,
                        .data_at = (int64_t)length + LENGTH_BYTES,
                        .data_bytes = (int64_t)(map->size - LENGTH_BYTES - length),
                        .arena = arena,
                        .err = err };
    bool ok = root ? read_header(&r, root)
                   : zt_fail(err, ZT_EXIT_DATA, "the header is not JSON (byte %td)", end ? end - text : (ptrdiff_t)0);
    for (; ok && end < text + length; end++)
        if (*end != ' ')
            ok = zt_fail(err, ZT_EXIT_DATA, "text after the end of the header (byte %td)", end - text);
    cJSON_Delete(root);
    zt_map_finish(&r.seen);
    return ok;
}
