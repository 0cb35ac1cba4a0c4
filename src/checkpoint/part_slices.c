/* The slices of parts: their names, and where their contents lie. */
#include "checkpoint/parts.h"

#include <string.h>

static const char *const before[ZT_STORED_FILES][2] = { { "weights", "weights-copy" },
                                                        { "optimizer", "optimizer-copy" },
                                                        { "ranks", "ranks-copy" } };

void zt_part_name(char to[ZT_PART_NAME], int rank, int count) {
    snprintf(to, ZT_PART_NAME, "part-%d-of-%d.safetensors", rank, count);
}

const char *zt_part_slice_name(struct zt_arena *arena, const struct zt_part_slice *slice, const char *tensor) {
    return zt_arena_printf(arena, "%s/%s[%lld:%lld]", before[slice->file][slice->copy], tensor, (long long)slice->first,
                           (long long)slice->end);
}

/* Parses "[FIRST:END]", with which the text ends. */
static bool parse_range(const char *text, struct zt_part_slice *slice) {
    char digits[2][24];
    int length = 0;
    return sscanf(text, "[%20[0-9]:%20[0-9]]%n", digits[0], digits[1], &length) == 2 && length && !text[length] &&
           zt_text_number(digits[0], &slice->first) && zt_text_number(digits[1], &slice->end) &&
           slice->first < slice->end;
}

bool zt_part_parse(const char *text, struct zt_arena *arena, struct zt_part_slice *slice, const char **name) {
    const char *from = strchr(text, '/'), *range = strrchr(text, '[');
    *slice = (struct zt_part_slice){ .file = -1 };
    for (int f = 0; from && f < ZT_STORED_FILES; f++)
        for (int copy = 0; copy < 2; copy++)
            if (strlen(before[f][copy]) == (size_t)(from - text) &&
                memcmp(text, before[f][copy], (size_t)(from - text)) == 0) {
                slice->file = f;
                slice->copy = copy;
            }
    if (slice->file < 0 || !range || range < from || !parse_range(range, slice))
        return false;
    *name = zt_arena_printf(arena, "%.*s", (int)(range - from - 1), from + 1);
    return true;
}

/* ---- contents ---- */

void zt_part_contents_begin(struct zt_part_contents *c) {
    for (int f = 0; f < ZT_STORED_FILES; f++)
        for (int t = 0; c->files[f] && t < c->files[f]->count; t++)
            zt_map_put(&c->names[f], c->files[f]->tensors[t].name, t);
}

bool zt_part_contents_add(struct zt_part_contents *c, const struct zt_stored_tensor *tensor,
                          const struct zt_file_map *map, int *file, struct zt_err *err) {
    const int64_t one = sizeof(float);
    struct zt_part_slice slice;
    const char *name;
    if (!zt_part_parse(tensor->name, c->arena, &slice, &name))
        return zt_fail(err, ZT_EXIT_DATA, "tensor \"%.200s\" is not named as a slice", tensor->name);
    *file = slice.file;
    if (!c->files[slice.file])
        return true;
    const int at = zt_map_get(&c->names[slice.file], name, -1);
    if (at < 0)
        return zt_fail(err, ZT_EXIT_DATA, "tensor \"%.200s\" does not belong to %s", name, c->owner);
    const struct zt_stored_tensor *whole = &c->files[slice.file]->tensors[at];
    if (slice.end > whole->bytes / one || tensor->bytes != (slice.end - slice.first) * one)
        return zt_fail(err, ZT_EXIT_DATA, "slice \"%.200s\" does not fit the tensor, which has %lld elements",
                       tensor->name, (long long)(whole->bytes / one));
    zt_sources_add(
        c->sources, slice.file, slice.copy,
        &(struct zt_extent){ whole->at + slice.first * one, whole->at + slice.end * one, map->data + tensor->at });
    return true;
}

void zt_part_contents_finish(struct zt_part_contents *c) {
    for (int f = 0; f < ZT_STORED_FILES; f++)
        zt_map_finish(&c->names[f]);
}
