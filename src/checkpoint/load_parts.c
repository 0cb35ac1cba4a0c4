/* The parts of a checkpoint (parts.h) that are in the folder, which need not be all. */
#include "checkpoint/loading.h"
#include "checkpoint/parts.h"
#include "checkpoint/rank_states.h"

#include <stdlib.h>
#include <string.h>

struct opening {
    struct zt_loading *l;
    struct zt_map names[ZT_STORED_FILES];                /* of the tensors of this run */
    const struct zt_stored_file *files[ZT_STORED_FILES]; /* their layout */
};

/* The states of ranks are taken over where there are as many ranks. */
static void choose_rank_states(struct opening *o) {
    struct zt_loading *l = o->l;
    const struct zt_checkpoints *c = l->c;
    const struct zt_rank_plan *p = c->o.plan;
    if (!zt_rank_states_exist(p) || l->manifest.part_count != p->grid.world)
        return;
    l->rank_states = c->rank_states[zt_rank_states_apart(p, l->manifest.updates)];
    o->files[ZT_RANKS_FILE] = &l->rank_states;
}

static bool add_slice(struct opening *o, const struct zt_stored_tensor *tensor, const struct zt_file_map *map) {
    struct zt_loading *l = o->l;
    struct zt_part_slice slice;
    const char *name;
    if (!zt_part_parse(tensor->name, l->c->arena, &slice, &name))
        return zt_fail(l->err, ZT_EXIT_DATA, "tensor \"%.200s\" is not named as a slice", tensor->name);
    l->has_rank_states |= slice.file == ZT_RANKS_FILE;
    if (!o->files[slice.file])
        return true;
    const int at = zt_map_get(&o->names[slice.file], name, -1);
    if (at < 0)
        return zt_fail(l->err, ZT_EXIT_DATA, "tensor \"%.200s\" does not belong to this run", name);
    const struct zt_stored_tensor *whole = &o->files[slice.file]->tensors[at];
    const int64_t one = sizeof(float);
    if (slice.end > whole->bytes / one || tensor->bytes != (slice.end - slice.first) * one)
        return zt_fail(l->err, ZT_EXIT_DATA, "slice \"%.200s\" does not fit the tensor, which has %lld elements",
                       tensor->name, (long long)(whole->bytes / one));
    zt_sources_add(
        &l->sources, slice.file, slice.copy,
        &(struct zt_extent){ whole->at + slice.first * one, whole->at + slice.end * one, map->data + tensor->at });
    return true;
}

/* The ranks that share the folder check a part each. */
static bool check_part(struct opening *o, int i, const struct zt_file_map *map) {
    struct zt_loading *l = o->l;
    const struct zt_file_sums *sums = &l->manifest.parts[i].sums;
    const struct zt_comm *here = l->c->storage.here;
    struct zt_stored_file file;
    if ((int64_t)map->size != sums->bytes)
        return zt_fail(l->err, ZT_EXIT_DATA, "%zu bytes, the manifest says %lld", map->size, (long long)sums->bytes) ||
               zt_load_hint_damage(l);
    if (!zt_stored_read(&file, map, l->c->arena, l->err))
        return false;
    for (int t = 0; t < file.count; t++)
        if (!add_slice(o, &file.tensors[t], map))
            return false;
    return i % here->size != here->rank ||
           zt_stored_check(&file, map, sums->crc, 0, zt_block_count(file.bytes), l->err) || zt_load_hint_damage(l);
}

static bool open_part(struct opening *o, int i) {
    struct zt_loading *l = o->l;
    const int before = l->err->count;
    char name[ZT_PART_NAME];
    zt_part_name(name, i, l->manifest.part_count);
    char *path = zt_path_join(l->c->o.from, name);
    bool ok = zt_file_map(&l->parts[i], path, ZT_EXIT_DATA, l->err) &&
              (check_part(o, i, &l->parts[i]) || zt_err_within(l->err, before, "%s", path));
    free(path);
    return ok;
}

bool zt_load_open_parts(struct zt_loading *l) {
    struct opening o = { .l = l, .files = { &l->c->files[ZT_WEIGHTS_FILE], &l->c->files[ZT_OPTIMIZER_FILE] } };
    bool ok = true;
    choose_rank_states(&o);
    for (int f = 0; f < ZT_STORED_FILES; f++)
        for (int t = 0; o.files[f] && t < o.files[f]->count; t++)
            zt_map_put(&o.names[f], o.files[f]->tensors[t].name, t);
    l->parts = zt_calloc((size_t)l->manifest.part_count, sizeof *l->parts);
    for (int i = 0; ok && i < l->manifest.part_count; i++)
        ok = !zt_part_exists(l->c->o.from, i, l->manifest.part_count) || open_part(&o, i);
    for (int f = 0; f < ZT_STORED_FILES; f++)
        zt_map_finish(&o.names[f]);
    zt_sources_sort(&l->sources);
    return ok;
}

bool zt_load_close_parts(struct zt_loading *l, bool ok) {
    for (int i = 0; l->parts && i < l->manifest.part_count; i++)
        ok = zt_file_close(&l->parts[i], ok, l->err);
    free(l->parts);
    return ok;
}
