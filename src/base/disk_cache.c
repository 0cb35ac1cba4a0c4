#include "base/disk_cache.h"

#include "base/arena.h"
#include "base/crc.h"
#include "base/file.h"
#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The header of a file. The key and the content follow. */
struct header {
    char magic[16];
    uint64_t key_bytes, content_bytes;
    uint32_t crc, reserved; /* of key and content */
};
static const char magic[16] = "ztrain kept 1";

static bool folder_of(struct zt_text *to) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        zt_text_add(to, "%s/ztrain", cache);
    else if (home && home[0] == '/')
        zt_text_add(to, "%s/.cache/ztrain", home);
    return to->length > 0;
}

bool zt_disk_cache_path(const char *key, const char *end, struct zt_text *to) {
    if (!folder_of(to))
        return false;
    zt_text_add(to, "/%016llx-%s", (unsigned long long)zt_hash(ZT_HASH_START, key, strlen(key)), end);
    return true;
}

static struct header header_of(const char *key, const char *content, size_t bytes) {
    struct header h = { .key_bytes = strlen(key), .content_bytes = bytes };
    memcpy(h.magic, magic, sizeof magic);
    h.crc = zt_crc32c(zt_crc32c(0, key, h.key_bytes), content, bytes);
    return h;
}

bool zt_disk_cache_read(const char *path, const char *key, struct zt_text *to) {
    struct zt_file_map map;
    struct zt_err none = { 0 };
    const size_t before = sizeof(struct header) + strlen(key);
    if (!zt_file_exists(path) || !zt_file_map(&map, path, ZT_EXIT_RUN, &none))
        return false;
    bool whole = map.size > before && memcmp(map.data + sizeof(struct header), key, strlen(key)) == 0;
    if (whole) {
        struct header h = header_of(key, (const char *)map.data + before, map.size - before);
        whole = memcmp(&h, map.data, sizeof h) == 0;
    }
    if (whole)
        zt_text_add_bytes(to, map.data + before, map.size - before);
    return zt_file_close(&map, whole, &none);
}

bool zt_disk_cache_write(const char *path, const char *key, const struct zt_text *content, struct zt_err *err) {
    struct header h = header_of(key, content->at, content->length);
    struct zt_text whole = { 0 };
    char *folder = zt_path_folder(path);
    zt_text_add_bytes(&whole, &h, sizeof h);
    zt_text_add_bytes(&whole, key, strlen(key));
    zt_text_add_bytes(&whole, content->at, content->length);
    bool ok = zt_file_make_folder(folder, err) && zt_file_write(path, whole.at, whole.length, err);
    free(folder);
    zt_text_finish(&whole);
    return ok;
}
