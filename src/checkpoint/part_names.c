/* The names of parts and of their slices. */
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
