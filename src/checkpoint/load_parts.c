/* The parts of a checkpoint (parts.h) that are in the folder, which need not be all. */
#include "checkpoint/loading.h"
#include "checkpoint/parts.h"
#include "checkpoint/rank_states.h"

#include <stdlib.h>

struct opening {
    struct zt_loading *l;
    struct zt_part_contents contents;
};

/* The states of ranks are taken over where there are as many ranks. */
static void choose_rank_states(struct opening *o) {
    struct zt_loading *l = o->l;
    const struct zt_checkpoints *c = l->c;
    const struct zt_rank_plan *p = c->o.plan;
    if (!zt_rank_states_exist(p) || l->manifest.part_count != p->grid.world)
        return;
    l->rank_states = c->rank_states[zt_rank_states_apart(p, l->manifest.updates)];
    o->contents.files[ZT_RANKS_FILE] = &l->rank_states;
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
    for (int t = 0; t < file.count; t++) {
        int of = 0;
        if (!zt_part_contents_add(&o->contents, &file.tensors[t], map, &of, l->err))
            return false;
        l->has_rank_states |= of == ZT_RANKS_FILE;
    }
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
    struct opening o = { .l = l,
                         .contents = { .files = { &l->c->files[ZT_WEIGHTS_FILE], &l->c->files[ZT_OPTIMIZER_FILE] },
                                       .owner = "this run",
                                       .sources = &l->sources,
                                       .arena = l->c->arena } };
    bool ok = true;
    choose_rank_states(&o);
    zt_part_contents_begin(&o.contents);
    l->parts = zt_calloc((size_t)l->manifest.part_count, sizeof *l->parts);
    for (int i = 0; ok && i < l->manifest.part_count; i++)
        ok = !zt_part_exists(l->c->o.from, i, l->manifest.part_count) || open_part(&o, i);
    zt_part_contents_finish(&o.contents);
    zt_sources_sort(&l->sources);
    return ok;
}

bool zt_load_close_parts(struct zt_loading *l, bool ok) {
    for (int i = 0; l->parts && i < l->manifest.part_count; i++)
        ok = zt_file_close(&l->parts[i], ok, l->err);
    free(l->parts);
    return ok;
}
