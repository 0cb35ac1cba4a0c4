/* ztrain verify: checks everything about a checkpoint that does not need its model. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/format.h"
#include "checkpoint/parts.h"

#include "base/show.h"
#include "base/text.h"

#include <stdlib.h>

struct verifying {
    const char *path;
    struct zt_arena *arena;
    struct zt_manifest manifest;
    int tensors, parts; /* parts: that are in the folder */
    int64_t bytes;
    struct zt_err *err;
};

static bool check_file(struct verifying *v, const struct zt_file_sums *sums, const struct zt_file_map *map) {
    struct zt_stored_file file;
    if ((int64_t)map->size != sums->bytes)
        return zt_fail(v->err, ZT_EXIT_DATA, "%zu bytes, the manifest says %lld", map->size, (long long)sums->bytes);
    bool readable = zt_stored_read(&file, map, v->arena, v->err);
    if (!readable)
        file = (struct zt_stored_file){ .bytes = (int64_t)map->size };
    file.has_checksum = file.count && sums->tensors == file.count;
    for (int i = 0; i < file.count && file.has_checksum; i++)
        file.tensors[i].crc = sums->tensor_crc[i];
    v->tensors += file.count;
    v->bytes += file.bytes;
    return zt_stored_check(&file, map, sums->crc, 0, zt_block_count(file.bytes), v->err) && readable;
}

static bool verify_file(struct verifying *v, const char *name, const struct zt_file_sums *sums) {
    struct zt_file_map map;
    char *path = zt_path_join(v->path, name);
    int before = v->err->count;
    bool ok = zt_file_map(&map, path, ZT_EXIT_DATA, v->err);
    if (ok) {
        ok = check_file(v, sums, &map) || zt_err_within(v->err, before, "%s", path);
        ok = zt_file_close(&map, ok, v->err);
    }
    free(path);
    return ok;
}

static bool verify_parts(struct verifying *v) {
    const int count = v->manifest.part_count;
    char name[ZT_PART_NAME];
    bool ok = true;
    for (int i = 0; i < count; i++) {
        zt_part_name(name, i, count);
        if (zt_part_exists(v->path, i, count)) {
            ok &= verify_file(v, name, &v->manifest.parts[i].sums);
            v->parts++;
        }
    }
    return ok && (v->parts || zt_fail(v->err, ZT_EXIT_DATA, "%s: has none of its %d parts", v->path, count));
}

/* Lists the parts that are in the folder, and those that hosts with node-local storage have. */
static void say_parts(const struct verifying *v, FILE *to) {
    char have[512], lacks[512];
    if (!v->manifest.part_count)
        return;
    zt_parts_list(v->path, &v->manifest, true, have, sizeof have);
    zt_parts_list(v->path, &v->manifest, false, lacks, sizeof lacks);
    fprintf(to, "parts of %d ranks: ", v->manifest.part_count);
    zt_show_print(to, have);
    if (v->parts < v->manifest.part_count) {
        fputs("\nelsewhere: ", to);
        zt_show_print(to, lacks);
        fputs("; in one folder together they are a whole checkpoint", to);
    }
    fputc('\n', to);
}

bool zt_checkpoint_verify(const char *path, FILE *to, struct zt_err *err) {
    struct verifying v = { .path = path, .arena = zt_arena_create(), .err = err };
    char bytes[32];
    bool ok = zt_manifest_load(&v.manifest, path, v.arena, err);
    if (ok && v.manifest.part_count)
        ok = verify_parts(&v);
    for (int f = 0, readable = ok; readable && f < v.manifest.files; f++)
        ok &= verify_file(&v, zt_stored_names[f], &v.manifest.file[f]);
    if (ok) {
        zt_show_print(to, path);
        fprintf(to, ": %s: step %lld, epoch %lld, %d %s, %s\n", v.parts < v.manifest.part_count ? "a part" : "whole",
                (long long)v.manifest.step, (long long)v.manifest.epoch, v.tensors,
                v.manifest.part_count ? "slices" : "tensors", zt_format_bytes(bytes, (double)v.bytes));
        say_parts(&v, to);
    }
    if (ok && v.manifest.client_state)
        fprintf(to, "client_state: %s\n", v.manifest.client_state);
    zt_arena_destroy(v.arena);
    return ok;
}
