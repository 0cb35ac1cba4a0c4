/* Loading: every rank reads the manifest, checks its share of the blocks, and reads the slices that it holds from the
 * mapped files. The ranks report what is wrong as one. */
#include "checkpoint/load.h"

#include "checkpoint/loading.h"
#include "checkpoint/parts.h"
#include "checkpoint/rank_states.h"
#include "checkpoint/record.h"
#include "optim/one_bit/trust.h"
#include "run/rank/blocks.h"
#include "run/rank/passes.h"
#include "run/rank/shards.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool read_manifest(struct zt_loading *l) {
    struct zt_checkpoints *c = l->c;
    int before = l->err->count;
    if (!c->o.from) {
        *l->err = *c->o.unfound;
        if (!c->storage.several)
            return false;
        zt_err_within(l->err, 0, "rank %d on %s", c->o.world->rank, c->storage.host[c->o.world->rank]);
        return zt_hint(l->err,
                       "with checkpoint.use_node_local_storage every host reads what it saved: bring the "
                       "checkpoints of this host back to that folder, or copy those of all hosts together into "
                       "one on every host");
    }
    return zt_manifest_load(&l->manifest, c->o.from, c->arena, l->err) &&
           zt_record_make(c->o.session, c->arena, &c->manifest, l->err) &&
           (zt_record_fits(c->o.session, &l->manifest, &c->manifest, l->err) ||
            zt_err_within(l->err, before, "%s", c->o.from));
}

static bool has_tensor(const struct zt_stored_file *file, const char *name) {
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return true;
    return false;
}

/* Reports the tensor that differs from those of the run. There is one, or another program wrote the file. */
static bool compare_tensors(struct zt_loading *l, int f) {
    const struct zt_stored_file *wanted = &l->c->files[f];
    struct zt_stored_file found;
    char a[ZT_SHAPE_TEXT], b[ZT_SHAPE_TEXT];
    if (!zt_stored_read(&found, &l->map[f], l->c->arena, l->err))
        return false;
    for (int i = 0; i < wanted->count || i < found.count; i++) {
        const struct zt_stored_tensor *have = i < found.count ? &found.tensors[i] : NULL,
                                      *want = i < wanted->count ? &wanted->tensors[i] : NULL;
        if (!want || (have && strcmp(have->name, want->name) != 0 && has_tensor(&found, want->name)))
            return zt_fail(l->err, ZT_EXIT_DATA, "tensor \"%.200s\" does not belong to this run", have->name);
        if (!have || strcmp(have->name, want->name) != 0)
            return zt_fail(l->err, ZT_EXIT_DATA, "tensor \"%.150s\" is missing%s%.150s", want->name,
                           have ? "; found in its place: " : "", have ? have->name : "");
        if (!zt_shape_equal(&have->shape, &want->shape))
            return zt_fail(l->err, ZT_EXIT_DATA, "tensor \"%.150s\" is %s, in this run %s", want->name,
                           zt_shape_text(&have->shape, a), zt_shape_text(&want->shape, b));
    }
    return zt_fail(l->err, ZT_EXIT_DATA, "the header does not have the format of this program");
}

static bool has_layout(const struct zt_loading *l, int f, const struct zt_stored_file *file,
                       const struct zt_text *head) {
    return l->map[f].size == (size_t)file->bytes && memcmp(l->map[f].data, head->at, head->length) == 0;
}

static bool check_blocks(struct zt_loading *l, int f, const struct zt_stored_file *file) {
    const struct zt_comm *here = l->c->storage.here;
    int64_t blocks = zt_block_count(file->bytes);
    return zt_stored_check(file, &l->map[f], l->manifest.file[f].crc, blocks * here->rank / here->size,
                           blocks * (here->rank + 1) / here->size, l->err) ||
           zt_load_hint_damage(l);
}

/* The states of ranks are taken over where there are as many ranks. */
static bool check_rank_states(struct zt_loading *l) {
    const struct zt_checkpoints *c = l->c;
    struct zt_stored_file found;
    for (int apart = 0; apart < 2; apart++)
        if (has_layout(l, ZT_RANKS_FILE, &c->rank_states[apart], &c->rank_heads[apart]))
            l->rank_states = c->rank_states[apart];
    return zt_stored_read(&found, &l->map[ZT_RANKS_FILE], l->c->arena, l->err) &&
           check_blocks(l, ZT_RANKS_FILE, &found);
}

static bool check_file(struct zt_loading *l, int f) {
    const struct zt_checkpoints *c = l->c;
    if (l->map[f].size != (size_t)l->manifest.file[f].bytes)
        return zt_fail(l->err, ZT_EXIT_DATA, "%zu bytes, the manifest says %lld", l->map[f].size,
                       (long long)l->manifest.file[f].bytes) ||
               zt_load_hint_damage(l);
    if (f == ZT_RANKS_FILE)
        return check_rank_states(l);
    if (has_layout(l, f, &c->files[f], &c->head[f]))
        return check_blocks(l, f, &c->files[f]);
    return compare_tensors(l, f) || zt_record_hint_tensors(c->o.session, &l->manifest, &c->manifest, l->err);
}

static bool open_file(struct zt_loading *l, int f) {
    char *path = zt_path_join(l->c->o.from, zt_stored_names[f]);
    int before = l->err->count;
    bool ok = zt_file_map(&l->map[f], path, ZT_EXIT_DATA, l->err) &&
              (check_file(l, f) || zt_err_within(l->err, before, "%s", path));
    if (ok)
        zt_sources_add(&l->sources, f, false, &(struct zt_extent){ 0, (int64_t)l->map[f].size, l->map[f].data });
    free(path);
    return ok;
}

static bool open_whole(struct zt_loading *l) {
    for (int f = 0; f < l->manifest.files && f < l->c->manifest.files; f++)
        if (!open_file(l, f))
            return false;
    zt_sources_sort(&l->sources);
    l->has_rank_states = l->manifest.files > ZT_RANKS_FILE;
    return true;
}

struct found {
    int64_t step;
    uint32_t crc, unused;
};

static bool differ(struct zt_loading *l, const struct found *own, const struct found *first) {
    const struct zt_checkpoints *c = l->c;
    const struct zt_checkpoint_storage *s = &c->storage;
    if (!s->several)
        return zt_fail(l->err, ZT_EXIT_DATA, "%s: the ranks found different checkpoints", c->o.from);
    const char *here = s->host[c->o.world->rank];
    if (own->step == first->step)
        zt_fail(l->err, ZT_EXIT_DATA, "%s: rank %d on %s has another checkpoint of this step than rank 0 on %s",
                c->o.from, c->o.world->rank, here, s->host[0]);
    else
        zt_fail(l->err, ZT_EXIT_DATA,
                "%s: rank %d on %s has the checkpoint of step %lld, rank 0 on %s that of step %lld", c->o.from,
                c->o.world->rank, here, (long long)own->step, s->host[0], (long long)first->step);
    return zt_hint(l->err,
                   "--resume CHECKPOINT takes one that all hosts have, or copy the folders of one checkpoint of "
                   "all hosts together");
}

/* Checks that all ranks have the same checkpoint. Collective. */
static bool same_everywhere(struct zt_loading *l) {
    struct zt_comm *world = l->c->o.world;
    struct found *all = zt_calloc((size_t)world->size, sizeof *all), *own = &all[world->rank];
    own->step = l->manifest.step;
    own->crc = l->manifest.own_crc;
    bool ok = zt_comm_exchange(world, all, sizeof *all, l->err);
    if (ok)
        ok = zt_storage_agree(world, own->crc == all[0].crc || differ(l, own, &all[0]), l->err);
    free(all);
    return ok;
}

/* ---- what this rank has of it ---- */

/* The parts that are in the folder lack element `at` bytes behind the beginning of a file. */
static bool fail_missing(const struct zt_loading *l, int f, int64_t at) {
    const struct zt_checkpoints *c = l->c;
    const struct zt_stored_file *file = f == ZT_RANKS_FILE ? &l->rank_states : &c->files[f];
    const char *host = c->storage.host ? c->storage.host[c->o.world->rank] : NULL;
    char have[256], lacks[256];
    int t = 0;
    while (at >= file->tensors[t].at + file->tensors[t].bytes)
        t++;
    zt_parts_list(c->o.from, &l->manifest, true, have, sizeof have);
    zt_parts_list(c->o.from, &l->manifest, false, lacks, sizeof lacks);
    zt_fail(l->err, ZT_EXIT_DATA,
            "%s: rank %d%s%s lacks \"%.100s\" of %s from element %lld on: of the parts of %d ranks, the folder has %s "
            "and lacks %s",
            c->o.from, c->o.world->rank, host ? " on " : "", host ? host : "", file->tensors[t].name,
            zt_stored_names[f], (long long)(at - file->tensors[t].at) / (long long)sizeof(float),
            l->manifest.part_count, have, lacks);
    return zt_hint(l->err,
                   "resume the same ranks on the same hosts, or copy the folders of this checkpoint of all hosts "
                   "together into one on every host: then any layout can load it");
}

static bool copy(const struct zt_loading *l, void *to, const void *from, int64_t bytes, bool on_host) {
    struct zt_device *device = l->c->o.rank->device;
    if (!on_host)
        return device->api->to_device(device, to, from, (size_t)bytes, l->err);
    memcpy(to, from, (size_t)bytes);
    return true;
}

/* Copies bytes of a file to the rank's memory on the device, or on the host; or looks whether they are there. */
static bool take_to(struct zt_loading *l, void *to, int f, int64_t at, int64_t bytes, bool on_host) {
    for (int64_t done = 0, some; done < bytes; done += some) {
        some = bytes - done;
        const unsigned char *from = zt_sources_at(&l->sources, f, at + done, &some);
        if (!from)
            return fail_missing(l, f, at + done);
        if (!l->looks && !copy(l, (char *)to + done, from, some, on_host))
            return false;
    }
    return true;
}

static bool take(struct zt_loading *l, void *to, int f, int64_t at, int64_t bytes) {
    return take_to(l, to, f, at, bytes, false);
}

/* Reads the parameters of one range that this rank holds. */
static bool take_range(struct zt_loading *l, const struct zt_range *range) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const struct zt_stored_file *file = &l->c->files[ZT_WEIGHTS_FILE];
    for (int t = 0; t < p->tensors.flat->tensor_count; t++) {
        const struct zt_flat_tensor *tensor = &p->tensors.flat->tensors[t];
        int64_t first = range->first, last = range->last;
        if (!zt_flat_cut(tensor, &first, &last))
            continue;
        float *to = l->c->o.rank->shard + range->param_at + (first - range->first);
        if (!take(l, to, ZT_WEIGHTS_FILE,
                  file->tensors[p->tensors.param_model[t]].at + (first - tensor->offset) * (int64_t)sizeof(float),
                  (last - first) * (int64_t)sizeof(float)))
            return false;
    }
    return true;
}

/* Reads the state of the loss scale, if the earlier run had one. The config gives its parameters. */
static void take_scale(struct zt_loading *l) {
    struct zt_scaling *s = &l->c->o.rank->scaling;
    const struct zt_manifest *m = &l->manifest;
    if (!s->dynamic || m->scale == 0)
        return;
    s->scale = m->scale;
    s->since = m->since_overflow;
    s->hysteresis = m->hysteresis < s->tolerated ? m->hysteresis : s->tolerated;
}

/* Reads a part of a piece, which is on the device or, if it is offloaded, in host memory. */
static bool take_part(struct zt_loading *l, const struct zt_piece *piece, void *to, int f, int64_t at) {
    return take_to(l, to, f, at, piece->count * (int64_t)sizeof(float), piece->on_host);
}

/* Reads the optimizer states of a piece, and its parameters if they are offloaded or have a master copy. */
static bool take_piece(void *with, const struct zt_piece *piece, struct zt_err *err) {
    struct zt_loading *l = with;
    const struct zt_checkpoints *c = l->c;
    const struct zt_rank_plan *p = c->o.plan;
    const int64_t skip = (piece->first - p->tensors.flat->tensors[piece->tensor].offset) * (int64_t)sizeof(float);
    const int param = p->tensors.param_model[piece->tensor];
    (void)err; /* `l` has it */
    if (c->o.rank->offload &&
        !take_part(l, piece, piece->param, ZT_WEIGHTS_FILE, c->files[ZT_WEIGHTS_FILE].tensors[param].at + skip))
        return false;
    for (int s = 0; s < p->memory.optimizer_states; s++) {
        const int tensor = s * p->tensors.model_params + param;
        if (!take_part(l, piece, piece->state[s], ZT_OPTIMIZER_FILE,
                       c->files[ZT_OPTIMIZER_FILE].tensors[tensor].at + skip))
            return false;
    }
    return true;
}

static bool take_trust(struct zt_loading *l) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const struct zt_rank *r = l->c->o.rank;
    bool ok = true;
    for (int t = 0; r->trust && ok && t < p->tensors.flat->tensor_count; t++) {
        const int tensor = p->memory.optimizer_states * p->tensors.model_params + p->tensors.param_model[t];
        ok = take(l, &r->trust[t], ZT_OPTIMIZER_FILE, l->c->files[ZT_OPTIMIZER_FILE].tensors[tensor].at,
                  sizeof *r->trust);
    }
    return ok;
}

/* After weights and states of rank 0, which these replace. */
static bool take_rank_states(struct zt_loading *l) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const int count = l->rank_states.count / p->grid.data;
    bool ok = true;
    for (int i = 0; ok && i < count; i++) {
        const struct zt_stored_tensor *from = &l->rank_states.tensors[p->grid.data_rank * count + i];
        ok = take(l, zt_rank_states_at(l->c->o.rank, i), ZT_RANKS_FILE, from->at, from->bytes);
    }
    if (!count && (l->has_rank_states || zt_rank_states_exist(p)))
        l->c->restarted = "the checkpoint is of another number of ranks";
    return ok;
}

/* The states, and offloaded parameters, which stream through memory where they are taken. */
static bool take_pieces(struct zt_loading *l) {
    const struct zt_rank *r = l->c->o.rank;
    if (!l->looks)
        return zt_rank_each_piece(l->c->o.rank, ZT_WRITES_ALL, take_piece, l, l->err);
    for (int i = 0; i < r->piece_count; i++)
        if (!take_piece(l, &r->pieces[i], l->err))
            return false;
    return true;
}

/* Everything of the files that this rank has. */
static bool take_all(struct zt_loading *l) {
    const struct zt_checkpoints *c = l->c;
    const struct zt_rank_plan *p = c->o.plan;
    struct zt_rank *r = c->o.rank;
    for (int i = 0; i < r->held_count && p->offload.parameters == ZT_HOME_DEVICE; i++)
        if (!take_range(l, &r->held[i]))
            return false;
    for (int i = 0; i < p->tensors.statistic_total; i++) {
        const struct zt_stored_tensor *from = &c->files[ZT_WEIGHTS_FILE].tensors[p->tensors.statistic_model[i]];
        struct zt_place place = { ZT_STATISTICS, p->tensors.statistic_offset[i] };
        if (!take(l, zt_rank_at(r, NULL, &place, NULL), ZT_WEIGHTS_FILE, from->at, from->bytes))
            return false;
    }
    return take_pieces(l) && take_trust(l) && take_rank_states(l);
}

static bool open_all(struct zt_loading *l) {
    const struct zt_checkpoints *c = l->c;
    if (!(l->manifest.part_count ? zt_load_open_parts(l) : open_whole(l)))
        return false;
    l->looks = true;
    const bool there = take_all(l);
    l->looks = false;
    if (!there)
        return false;
    if (l->manifest.step <= c->o.steps)
        return true;
    zt_fail(l->err, ZT_EXIT_CONFIG, "%s: step %lld, but the run ends at step %lld", c->o.from,
            (long long)l->manifest.step, (long long)c->o.steps);
    return zt_hint(l->err, "raise --steps or --epochs");
}

static bool take_over(struct zt_loading *l) {
    struct zt_checkpoints *c = l->c;
    const struct zt_config *config = c->o.plan->job->config;
    struct zt_rank *r = c->o.rank;
    if (l->manifest.observes && zt_lr_observes(config) &&
        !zt_lr_state_take(config, &r->lr_state, &l->manifest.lr_state, l->err))
        return false;
    if (!take_all(l) || !zt_rank_shards_changed(r, l->err))
        return false;
    r->updates = l->manifest.updates;
    take_scale(l);
    r->lr_state.updates = r->updates;
    r->derived_for = NULL;
    return r->device->api->synchronize(r->device, l->err);
}

/* Whether `from` is the checkpoint of that step in this run's folder. */
static bool is_own(const struct zt_checkpoints *c, int64_t step) {
    struct stat from, own;
    char *path = zt_checkpoint_path(&c->folder, step);
    bool same =
        stat(c->o.from, &from) == 0 && stat(path, &own) == 0 && from.st_dev == own.st_dev && from.st_ino == own.st_ino;
    free(path);
    return same;
}

static void take_counters(struct zt_loading *l) {
    struct zt_checkpoints *c = l->c;
    c->loaded = l->manifest;
    c->recorded = true;
    if (!c->manifest.client_state) /* that of the config has precedence */
        c->manifest.client_state = l->manifest.client_state;
    c->manifest.step = l->manifest.step;
    c->manifest.best_metric = l->manifest.best_metric;
    c->manifest.best_value = l->manifest.best_value;
    c->manifest.best_step = l->manifest.best_step;
    c->saved = is_own(c, l->manifest.step) ? l->manifest.step : -1;
}

/* With several folders, the checkpoint is this run's own where it is in all of them. Collective. */
static bool own_everywhere(struct zt_checkpoints *c, struct zt_err *err) {
    double others = c->saved < 0;
    if (!c->storage.several)
        return true;
    bool ok = c->o.world->api->sum(c->o.world, &others, 1, err);
    c->saved = others > 0 ? -1 : c->saved;
    return ok;
}

bool zt_checkpoint_load(struct zt_checkpoints *c, struct zt_err *err) {
    struct zt_loading l = { .c = c, .err = err };
    struct zt_comm *world = c->o.world;
    bool ok = zt_storage_agree(world, read_manifest(&l), err) && same_everywhere(&l) &&
              zt_storage_agree(world, open_all(&l), err) && take_over(&l);
    for (int f = 0; f < ZT_STORED_FILES; f++)
        ok = zt_file_close(&l.map[f], ok, err);
    ok = zt_load_close_parts(&l, ok);
    zt_sources_finish(&l.sources);
    if (!ok)
        return false;
    take_counters(&l);
    return own_everywhere(c, err);
}
