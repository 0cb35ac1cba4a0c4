/* External data: where a tensor's entries say that its bytes are, and the mapped files they are in.
 *
 * The location is hostile text: it must stay inside the model's folder, and no symbolic link may lead out of it. A hard
 * link is allowed: who can make one in that folder could as well put a copy there, package managers and deduplication
 * make them, and the file is only read. Nothing is ever written through one: new files are renamed over old names. */
#include "graph/onnx/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool zt_onnx_is_external(const struct zt_onnx_scan *scan, int message) {
    struct zt_wire_field field;
    size_t at = 0;
    return zt_onnx_find_field(scan, message, ZT_TENSOR_DATA_LOCATION, &at, &field) && field.value == 1;
}

/* The text of field `number` of the entry in `field`, "" where it has none. */
static const char *entry_text(const struct zt_onnx_file *file, const struct zt_wire_field *entry, uint32_t number) {
    struct zt_wire_field f;
    for (size_t at = entry->data; at < entry->end; at = f.end) {
        if (zt_wire_next(file->scan.file, at, entry->end, &f))
            break;
        if (f.number == number && f.wire == ZT_WIRE_BYTES)
            return zt_arena_strndup(file->arena, (const char *)file->scan.file + f.data, f.end - f.data);
    }
    return "";
}

/* A decimal number and nothing else. */
static bool read_size(const char *text, uint64_t *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0;
}

static bool read_entries(struct zt_onnx_file *file, int message, struct zt_onnx_region *region, struct zt_err *err) {
    struct zt_wire_field entry;
    for (size_t at = 0; zt_onnx_find_field(&file->scan, message, ZT_TENSOR_EXTERNAL_DATA, &at, &entry);) {
        const char *key = entry_text(file, &entry, 1), *value = entry_text(file, &entry, 2);
        uint64_t *size = strcmp(key, "offset") == 0   ? &region->offset
                         : strcmp(key, "length") == 0 ? &region->bytes
                                                      : NULL;
        if (size && !read_size(value, size))
            return zt_fail(err, file->code, "external data %s is \"%s\", wants a number of bytes", key, value);
        if (strcmp(key, "location") == 0)
            region->location = value;
    }
    return region->location || zt_fail(err, file->code, "external data have no location");
}

/* The mapped file of `location`, NULL where it could not be mapped. */
static const struct zt_file_map *external_file(struct zt_onnx_file *file, const char *location, struct zt_err *err) {
    int i = zt_map_get(&file->external_by_location, location, -1);
    if (i >= 0)
        return &file->externals.at[i].map;
    struct zt_onnx_external fresh = { .location = zt_arena_strdup(file->arena, location) };
    if (!zt_file_map_below(&fresh.map, file->folder, location, file->code, err))
        return NULL;
    zt_map_put(&file->external_by_location, fresh.location, file->externals.count);
    zt_vec_push(&file->externals, fresh);
    return &file->externals.at[file->externals.count - 1].map;
}

/* `plan` and `inspect` read no weights, so a file that is not there is no error for them. */
static bool may_be_absent(const struct zt_onnx_file *file, const char *location) {
    char *path = zt_path_join(file->folder, location);
    bool absent = file->weights == ZT_WEIGHTS_ABSENT_OK && location[0] != '/' && !zt_file_exists(path);
    free(path);
    return absent;
}

bool zt_onnx_external(struct zt_onnx_file *file, int message, uint64_t wanted, struct zt_onnx_region *region,
                      struct zt_err *err) {
    *region = (struct zt_onnx_region){ .bytes = UINT64_MAX };
    if (!read_entries(file, message, region, err))
        return false;
    if (region->bytes != UINT64_MAX && wanted != UINT64_MAX && region->bytes != wanted)
        return zt_fail(err, file->code, "external data in \"%s\" have length %" PRIu64 ", dims and type want %" PRIu64,
                       region->location, region->bytes, wanted);
    if (region->bytes == UINT64_MAX)
        region->bytes = wanted;
    if (may_be_absent(file, region->location))
        return true;
    const struct zt_file_map *map = external_file(file, region->location, err);
    if (!map)
        return false;
    if (region->bytes == UINT64_MAX && region->offset <= map->size)
        region->bytes = map->size - region->offset;
    if (region->offset > map->size || region->bytes > map->size - region->offset)
        return zt_fail(err, file->code,
                       "external data of %" PRIu64 " bytes at offset %" PRIu64
                       " run past the end of \"%s\" (%zu bytes)",
                       region->bytes, region->offset, region->location, map->size);
    region->data = map->data + region->offset;
    return true;
}
