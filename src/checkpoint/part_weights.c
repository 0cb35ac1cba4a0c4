#include "checkpoint/part_weights.h"

#include "checkpoint/parts.h"

#include <stdlib.h>
#include <string.h>

struct opening {
    struct zt_part_weights *to;
    const char *folder;
    const struct zt_manifest *manifest;
    struct zt_part_contents contents;
    struct zt_err *err;
};

/* Adds the slices of weights of a part and checks the blocks up to their end. */
static bool add_part(struct opening *o, const struct zt_file_sums *sums, const struct zt_file_map *map) {
    struct zt_stored_file file;
    int64_t end = 0;
    if ((int64_t)map->size != sums->bytes)
        return zt_fail(o->err, ZT_EXIT_DATA, "%zu bytes, the manifest says %lld", map->size, (long long)sums->bytes);
    if (!zt_stored_read(&file, map, o->contents.arena, o->err))
        return false;
    for (int t = 0; t < file.count; t++) {
        int of = 0;
        if (!zt_part_contents_add(&o->contents, &file.tensors[t], map, &of, o->err))
            return false;
        if (of == ZT_WEIGHTS_FILE)
            end = file.tensors[t].at + file.tensors[t].bytes;
    }
    return zt_stored_check(&file, map, sums->crc, 0, zt_block_count(end), o->err);
}

static bool open_part(struct opening *o, int i) {
    const int before = o->err->count;
    char name[ZT_PART_NAME];
    struct zt_file_map *map = &o->to->map[o->to->map_count];
    zt_part_name(name, i, o->manifest->part_count);
    char *path = zt_path_join(o->folder, name);
    bool ok = zt_file_map(map, path, ZT_EXIT_DATA, o->err);
    if (ok) {
        o->to->map_count++;
        ok = add_part(o, &o->manifest->parts[i].sums, map) || zt_err_within(o->err, before, "%s", path);
    }
    free(path);
    return ok;
}

static bool fail_missing(const struct opening *o, const struct zt_stored_tensor *t, int64_t element) {
    char have[256], lacks[256];
    if (o->to->map_count == o->manifest->part_count)
        return zt_fail(o->err, ZT_EXIT_DATA, "%s: no part has \"%.100s\" from element %lld on", o->folder, t->name,
                       (long long)element);
    zt_parts_list(o->folder, o->manifest, true, have, sizeof have);
    zt_parts_list(o->folder, o->manifest, false, lacks, sizeof lacks);
    zt_fail(o->err, ZT_EXIT_DATA,
            "%s: lacks \"%.100s\" from element %lld on: of the parts of %d ranks, the folder has %s and lacks %s",
            o->folder, t->name, (long long)element, o->manifest->part_count, have, lacks);
    return zt_hint(o->err, "copy the folders of this checkpoint of all hosts together into one");
}

/* Copies the elements of a tensor to `to`; NULL: checks that the parts have them all. */
static bool copy(struct opening *o, const struct zt_stored_tensor *t, char *to) {
    for (int64_t done = 0, some; done < t->bytes; done += some) {
        some = t->bytes - done;
        const void *from = zt_sources_at(o->contents.sources, ZT_WEIGHTS_FILE, t->at + done, &some);
        if (!from)
            return fail_missing(o, t, done / (int64_t)sizeof(float));
        if (to)
            memcpy(to + done, from, (size_t)some);
    }
    return true;
}

/* Finds the elements of a tensor: where they lie if one slice has them all, else a copy in the arena. Sizes are those
 * of a hostile manifest until the elements are there. */
static const void *gather(struct opening *o, const struct zt_stored_tensor *t) {
    int64_t some = t->bytes;
    if (!copy(o, t, NULL))
        return NULL;
    const void *from = t;
    if (t->bytes)
        from = zt_sources_at(o->contents.sources, ZT_WEIGHTS_FILE, t->at, &some);
    if (some == t->bytes)
        return from;
    char *to = zt_arena_alloc(o->contents.arena, (size_t)t->bytes);
    return copy(o, t, to) ? to : NULL;
}

static bool open_all(struct opening *o) {
    struct zt_part_weights *to = o->to;
    const int parts = o->manifest->part_count;
    bool ok = true;
    for (int i = 0; ok && i < parts; i++)
        ok = !zt_part_exists(o->folder, i, parts) || open_part(o, i);
    zt_sources_sort(o->contents.sources);
    for (int t = 0; ok && t < to->file->count; t++)
        ok = (to->data[t] = gather(o, &to->file->tensors[t])) != NULL;
    return ok;
}

bool zt_part_weights_open(struct zt_part_weights *to, const char *folder, const struct zt_manifest *manifest,
                          struct zt_arena *arena, struct zt_err *err) {
    struct zt_sources sources = { 0 };
    struct opening o = {
        .to = to,
        .folder = folder,
        .manifest = manifest,
        .contents = { .files = { manifest->weights }, .owner = "the manifest", .sources = &sources, .arena = arena },
        .err = err
    };
    *to = (struct zt_part_weights){ .file = manifest->weights };
    if (!manifest->weights) {
        zt_fail(err, ZT_EXIT_DATA, "%s: a checkpoint in parts of %d ranks, whose manifest has no shapes", folder,
                manifest->part_count);
        return zt_hint(err,
                       "an older program wrote it: --resume in one folder that has all parts, without "
                       "checkpoint.use_node_local_storage, saves whole checkpoints");
    }
    to->map = zt_calloc((size_t)manifest->part_count, sizeof *to->map);
    to->data = ZT_NEW_N(arena, const void *, manifest->weights->count + 1);
    zt_part_contents_begin(&o.contents);
    const bool ok = open_all(&o);
    zt_part_contents_finish(&o.contents);
    zt_sources_finish(&sources);
    return ok;
}

void zt_part_weights_close(struct zt_part_weights *weights) {
    for (int i = 0; i < weights->map_count; i++)
        zt_file_unmap(&weights->map[i]);
    free(weights->map);
}
