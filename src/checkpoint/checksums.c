/* Whether the blocks of a safetensors file have the checksums that were saved with them. */
#include "checkpoint/format.h"

#include "base/crc.h"
#include "base/map.h"

/* Whether a tensor of a damaged block may be what is damaged. */
static bool is_suspect(const struct zt_stored_file *file, const struct zt_file_map *map,
                       const struct zt_stored_tensor *t) {
    return !file->has_checksum || zt_crc32c(0, map->data + t->at, (size_t)t->bytes) != t->crc;
}

/* Lists the damaged tensors of a block for an error. */
static void name_block(const struct zt_stored_file *file, const struct zt_file_map *map, int64_t block, char *to,
                       size_t room) {
    const int64_t first = block * ZT_BLOCK_BYTES, last = first + ZT_BLOCK_BYTES;
    int shown = 0, count = 0;
    size_t n = 0;
    to[0] = 0;
    for (int i = 0; i < file->count; i++) {
        const struct zt_stored_tensor *t = &file->tensors[i];
        if (t->bytes == 0 || t->at >= last || t->at + t->bytes <= first || !is_suspect(file, map, t))
            continue;
        if (count++ < 3 && n < room) {
            n += (size_t)snprintf(to + n, room - n, "%s\"%.150s\"", shown ? ", " : "", t->name);
            shown++;
        }
    }
    if (count > shown && n < room)
        snprintf(to + n, room - n, " and %d more", count - shown);
    if (count == 0)
        snprintf(to, room, "the header");
}

bool zt_stored_check(const struct zt_stored_file *file, const struct zt_file_map *map, const uint32_t *crc,
                     int64_t first, int64_t last, struct zt_err *err) {
    bool ok = true;
    for (int64_t b = first; b < last; b++) {
        int64_t at = b * ZT_BLOCK_BYTES, rest = file->bytes - at, bytes = rest < ZT_BLOCK_BYTES ? rest : ZT_BLOCK_BYTES;
        uint32_t found = zt_crc32c(0, map->data + at, (size_t)bytes);
        char names[512];
        if (found == crc[b])
            continue;
        name_block(file, map, b, names, sizeof names);
        ok = zt_fail(err, ZT_EXIT_DATA, "bytes %lld..%lld (%s): checksum %08x, wants %08x", (long long)at,
                     (long long)(at + bytes - 1), names, found, crc[b]);
    }
    return ok;
}
