/* ztrain verify: checks everything about a checkpoint that does not need its model. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/format.h"

#include "base/text.h"

#include <stdlib.h>

struct verifying {
    const char *path;
    struct zt_arena *arena;
    struct zt_manifest manifest;
    int tensors;
    int64_t bytes;
    struct zt_err *err;
};

static bool check_file(struct verifying *v, int f, const struct zt_file_map *map) {
    struct zt_stored_file file;
    if ((int64_t)map->size != v->manifest.file_bytes[f])
        return zt_fail(v->err, ZT_EXIT_DATA, "%zu bytes, the manifest says %lld", map->size,
                       (long long)v->manifest.file_bytes[f]);
    bool readable = zt_stored_read(&file, map, v->arena, v->err);
    if (!readable)
        file = (struct zt_stored_file){ .bytes = (int64_t)map->size };
    file.has_checksum = file.count && v->manifest.tensors[f] == file.count;
    for (int i = 0; i < file.count && file.has_checksum; i++)
        file.tensors[i].crc = v->manifest.tensor_crc[f][i];
    v->tensors += file.count;
    v->bytes += file.bytes;
    return zt_stored_check(&file, map, v->manifest.crc[f], 0, zt_block_count(file.bytes), v->err) && readable;
}

static bool verify_file(struct verifying *v, int f) {
    struct zt_file_map map;
    char *path = zt_path_join(v->path, zt_stored_names[f]);
    int before = v->err->count;
    bool ok = zt_file_map(&map, path, ZT_EXIT_DATA, v->err);
    if (ok) {
        ok = check_file(v, f, &map) || zt_err_within(v->err, before, "%s", path);
        ok = zt_file_close(&map, ok, v->err);
    }
    free(path);
    return ok;
}

bool zt_checkpoint_verify(const char *path, FILE *to, struct zt_err *err) {
    struct verifying v = { .path = path, .arena = zt_arena_create(), .err = err };
    char bytes[32];
    bool ok = zt_manifest_load(&v.manifest, path, v.arena, err);
    if (ok)
        for (int f = 0; f < v.manifest.files; f++)
            ok &= verify_file(&v, f);
    if (ok)
        fprintf(to, "%s: whole: step %lld, epoch %lld, %d tensors, %s\n", path, (long long)v.manifest.step,
                (long long)v.manifest.epoch, v.tensors, zt_format_bytes(bytes, (double)v.bytes));
    if (ok && v.manifest.client_state)
        fprintf(to, "client_state: %s\n", v.manifest.client_state);
    zt_arena_destroy(v.arena);
    return ok;
}
