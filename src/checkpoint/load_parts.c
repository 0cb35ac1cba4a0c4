/* Loading of a checkpoint in parts (parts.h): from the parts that are in the folder, which need not be all. */
#include "checkpoint/loading.h"
#include "checkpoint/parts.h"
#include "checkpoint/rank_states.h"
#include "run/rank/blocks.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

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

/* ---- what this rank needs ---- */

static bool fail(const struct zt_loading *l, int f, const struct zt_stored_tensor *tensor, int64_t first) {
    const struct zt_checkpoints *c = l->c;
    const char *host = c->storage.host ? c->storage.host[c->o.world->rank] : NULL;
    char have[256], lacks[256];
    zt_parts_list(c->o.from, &l->manifest, true, have, sizeof have);
    zt_parts_list(c->o.from, &l->manifest, false, lacks, sizeof lacks);
    zt_fail(l->err, ZT_EXIT_DATA,
            "%s: rank %d%s%s lacks \"%.100s\" of %s from element %lld on: of the parts of %d ranks, the folder has %s "
            "and lacks %s",
            c->o.from, c->o.world->rank, host ? " on " : "", host ? host : "", tensor->name, zt_stored_names[f],
            (long long)first, l->manifest.part_count, have, lacks);
    return zt_hint(l->err,
                   "resume the same ranks on the same hosts, or copy the folders of this checkpoint of all hosts "
                   "together into one on every host: then any layout can load it");
}

/* Whether elements first..end-1 of a tensor are there. */
static bool covers(const struct zt_loading *l, int f, const struct zt_stored_tensor *tensor, int64_t first,
                   int64_t end) {
    const int64_t one = sizeof(float);
    while (first < end) {
        int64_t bytes = (end - first) * one;
        if (!zt_sources_at(&l->sources, f, tensor->at + first * one, &bytes))
            return fail(l, f, tensor, first);
        first += bytes / one;
    }
    return true;
}

static bool covers_whole(const struct zt_loading *l, int f, const struct zt_stored_tensor *tensor) {
    return covers(l, f, tensor, 0, tensor->bytes / (int64_t)sizeof(float));
}

/* Elements first..last-1 of the flat parameters. */
static bool covers_flat(const struct zt_loading *l, int64_t first, int64_t last) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const struct zt_stored_file *file = &l->c->files[ZT_WEIGHTS_FILE];
    for (int t = 0; t < p->flat->tensor_count; t++) {
        const struct zt_flat_tensor *tensor = &p->flat->tensors[t];
        const int64_t begin = tensor->offset > first ? tensor->offset : first, stop = tensor->offset + tensor->count,
                      end = stop < last ? stop : last;
        if (begin < end && !covers(l, ZT_WEIGHTS_FILE, &file->tensors[p->param_model[t]], begin - tensor->offset,
                                   end - tensor->offset))
            return false;
    }
    return true;
}

static bool covers_states(const struct zt_loading *l) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const struct zt_rank *r = l->c->o.rank;
    const struct zt_stored_file *file = &l->c->files[ZT_OPTIMIZER_FILE];
    for (int i = 0; i < r->piece_count; i++) {
        const struct zt_piece *piece = &r->pieces[i];
        const int param = p->param_model[piece->tensor];
        const int64_t first = piece->first - p->flat->tensors[piece->tensor].offset;
        if (r->offload &&
            !covers(l, ZT_WEIGHTS_FILE, &l->c->files[ZT_WEIGHTS_FILE].tensors[param], first, first + piece->count))
            return false;
        for (int s = 0; s < p->optimizer_states; s++)
            if (!covers(l, ZT_OPTIMIZER_FILE, &file->tensors[s * p->model_params + param], first, first + piece->count))
                return false;
    }
    for (int t = 0; r->trust && t < p->flat->tensor_count; t++)
        if (!covers_whole(l, ZT_OPTIMIZER_FILE,
                          &file->tensors[p->optimizer_states * p->model_params + p->param_model[t]]))
            return false;
    return true;
}

static bool covers_all(const struct zt_loading *l) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const struct zt_rank *r = l->c->o.rank;
    for (int i = 0; i < r->held_count && p->offload.parameters == ZT_HOME_DEVICE; i++)
        if (!covers_flat(l, r->held[i].first, r->held[i].last))
            return false;
    for (int i = 0; i < p->statistic_total; i++)
        if (!covers_whole(l, ZT_WEIGHTS_FILE, &l->c->files[ZT_WEIGHTS_FILE].tensors[p->statistic_model[i]]))
            return false;
    const int count = l->rank_states.count / p->grid.data;
    for (int i = p->grid.data_rank * count; i < (p->grid.data_rank + 1) * count; i++)
        if (!covers_whole(l, ZT_RANKS_FILE, &l->rank_states.tensors[i]))
            return false;
    return covers_states(l);
}

/* ---- */

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
    return ok && covers_all(l);
}

bool zt_load_close_parts(struct zt_loading *l, bool ok) {
    for (int i = 0; l->parts && i < l->manifest.part_count; i++)
        ok = zt_file_close(&l->parts[i], ok, l->err);
    free(l->parts);
    return ok;
}
