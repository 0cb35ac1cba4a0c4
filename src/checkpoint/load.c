/* Loading: every rank reads the manifest, checks its share of the blocks, and reads the slices that it holds from the
 * mapped files. */
#include "checkpoint/load.h"

#include "checkpoint/rank_states.h"
#include "checkpoint/record.h"
#include "optim/one_bit/trust.h"
#include "run/rank/blocks.h"
#include "run/rank/passes.h"
#include "run/rank/shards.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct loading {
    struct zt_checkpoints *c;
    struct zt_file_map map[ZT_STORED_FILES];
    struct zt_manifest manifest;
    struct zt_stored_file rank_states; /* those of the file that this run takes over; else empty */
    struct zt_err *err;
};

static bool read_manifest(struct loading *l) {
    struct zt_checkpoints *c = l->c;
    int before = l->err->count;
    return zt_manifest_load(&l->manifest, c->o.from, c->arena, l->err) &&
           zt_record_make(c->o.session, c->arena, &c->manifest, l->err) &&
           (zt_record_fits(c->o.session, &l->manifest, &c->manifest, l->err) ||
            zt_err_within(l->err, before, "%s", c->o.from));
}

/* Reports the tensor that differs from those of the run. There is one, or another program wrote the file. */
static bool compare_tensors(struct loading *l, int f) {
    const struct zt_stored_file *wanted = &l->c->files[f];
    struct zt_stored_file found;
    char a[ZT_SHAPE_TEXT], b[ZT_SHAPE_TEXT];
    if (!zt_stored_read(&found, &l->map[f], l->c->arena, l->err))
        return false;
    for (int i = 0; i < wanted->count || i < found.count; i++) {
        const struct zt_stored_tensor *have = i < found.count ? &found.tensors[i] : NULL,
                                      *want = i < wanted->count ? &wanted->tensors[i] : NULL;
        if (!want)
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

static bool hint_damage(struct loading *l) {
    return zt_hint(l->err, "`ztrain verify %s` lists all damage; --resume accepts an earlier checkpoint", l->c->o.from);
}

static bool has_layout(const struct loading *l, int f, const struct zt_stored_file *file, const struct zt_text *head) {
    return l->map[f].size == (size_t)file->bytes && memcmp(l->map[f].data, head->at, head->length) == 0;
}

static bool check_blocks(struct loading *l, int f, const struct zt_stored_file *file) {
    const struct zt_comm *world = l->c->o.world;
    int64_t blocks = zt_block_count(file->bytes);
    return zt_stored_check(file, &l->map[f], l->manifest.crc[f], blocks * world->rank / world->size,
                           blocks * (world->rank + 1) / world->size, l->err) ||
           hint_damage(l);
}

/* The states of ranks are taken over where there are as many ranks. */
static bool check_rank_states(struct loading *l) {
    const struct zt_checkpoints *c = l->c;
    struct zt_stored_file found;
    for (int apart = 0; apart < 2; apart++)
        if (has_layout(l, ZT_RANKS_FILE, &c->rank_states[apart], &c->rank_heads[apart]))
            l->rank_states = c->rank_states[apart];
    return zt_stored_read(&found, &l->map[ZT_RANKS_FILE], l->c->arena, l->err) &&
           check_blocks(l, ZT_RANKS_FILE, &found);
}

static bool check_file(struct loading *l, int f) {
    const struct zt_checkpoints *c = l->c;
    if (l->map[f].size != (size_t)l->manifest.file_bytes[f])
        return zt_fail(l->err, ZT_EXIT_DATA, "%zu bytes, the manifest says %lld", l->map[f].size,
                       (long long)l->manifest.file_bytes[f]) ||
               hint_damage(l);
    if (f == ZT_RANKS_FILE)
        return check_rank_states(l);
    return has_layout(l, f, &c->files[f], &c->head[f]) ? check_blocks(l, f, &c->files[f]) : compare_tensors(l, f);
}

static bool open_file(struct loading *l, int f) {
    char *path = zt_path_join(l->c->o.from, zt_stored_names[f]);
    int before = l->err->count;
    bool ok = zt_file_map(&l->map[f], path, ZT_EXIT_DATA, l->err) &&
              (check_file(l, f) || zt_err_within(l->err, before, "%s", path));
    free(path);
    return ok;
}

/* Checks that all ranks succeeded and loaded the same checkpoint. */
static bool agree(struct loading *l) {
    struct zt_comm *world = l->c->o.world;
    double sum = l->manifest.own_crc;
    if (!world->api->sum(world, &sum, 1, l->err))
        return false;
    return sum == (double)l->manifest.own_crc * world->size ||
           zt_fail(l->err, ZT_EXIT_DATA, "%s: the ranks found different checkpoints", l->c->o.from);
}

static bool take(struct loading *l, void *to, int f, int64_t at, int64_t bytes) {
    const struct zt_device *device = l->c->o.rank->device;
    return bytes == 0 ||
           device->api->to_device((struct zt_device *)device, to, l->map[f].data + at, (size_t)bytes, l->err);
}

/* Reads the parameters of one range that this rank holds. */
static bool take_range(struct loading *l, const struct zt_range *range) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const struct zt_stored_file *file = &l->c->files[ZT_WEIGHTS_FILE];
    for (int t = 0; t < p->flat->tensor_count; t++) {
        const struct zt_flat_tensor *tensor = &p->flat->tensors[t];
        int64_t first = tensor->offset > range->first ? tensor->offset : range->first,
                end = tensor->offset + tensor->count, last = end < range->last ? end : range->last;
        float *to = l->c->o.rank->shard + range->param_at + (first - range->first);
        if (first < last &&
            !take(l, to, ZT_WEIGHTS_FILE,
                  file->tensors[p->param_model[t]].at + (first - tensor->offset) * (int64_t)sizeof(float),
                  (last - first) * (int64_t)sizeof(float)))
            return false;
    }
    return true;
}

/* Reads the state of the loss scale, if the earlier run had one. The config gives its parameters. */
static void take_scale(struct loading *l) {
    struct zt_scaling *s = &l->c->o.rank->scaling;
    const struct zt_manifest *m = &l->manifest;
    if (!s->dynamic || m->scale == 0)
        return;
    s->scale = m->scale;
    s->since = m->since_overflow;
    s->hysteresis = m->hysteresis < s->tolerated ? m->hysteresis : s->tolerated;
}

/* Reads a part of a piece, which is on the device or, if it is offloaded, in host memory. */
static bool take_part(struct loading *l, const struct zt_piece *piece, void *to, int f, int64_t at) {
    const int64_t bytes = piece->count * (int64_t)sizeof(float);
    if (!piece->on_host)
        return take(l, to, f, at, bytes);
    memcpy(to, l->map[f].data + at, (size_t)bytes);
    return true;
}

/* Reads the optimizer states of a piece, and its parameters if they are offloaded or have a master copy. */
static bool take_piece(void *with, const struct zt_piece *piece, struct zt_err *err) {
    struct loading *l = with;
    const struct zt_checkpoints *c = l->c;
    const struct zt_rank_plan *p = c->o.plan;
    const int64_t skip = (piece->first - p->flat->tensors[piece->tensor].offset) * (int64_t)sizeof(float);
    const int param = p->param_model[piece->tensor];
    (void)err; /* `l` has it */
    if (c->o.rank->offload &&
        !take_part(l, piece, piece->param, ZT_WEIGHTS_FILE, c->files[ZT_WEIGHTS_FILE].tensors[param].at + skip))
        return false;
    for (int s = 0; s < p->optimizer_states; s++) {
        const int tensor = s * p->model_params + param;
        if (!take_part(l, piece, piece->state[s], ZT_OPTIMIZER_FILE,
                       c->files[ZT_OPTIMIZER_FILE].tensors[tensor].at + skip))
            return false;
    }
    return true;
}

static bool take_trust(struct loading *l) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const struct zt_rank *r = l->c->o.rank;
    bool ok = true;
    for (int t = 0; r->trust && ok && t < p->flat->tensor_count; t++) {
        const int tensor = p->optimizer_states * p->model_params + p->param_model[t];
        ok = take(l, &r->trust[t], ZT_OPTIMIZER_FILE, l->c->files[ZT_OPTIMIZER_FILE].tensors[tensor].at,
                  sizeof *r->trust);
    }
    return ok;
}

/* After weights and states of rank 0, which these replace. */
static bool take_rank_states(struct loading *l) {
    const struct zt_rank_plan *p = l->c->o.plan;
    const int count = l->rank_states.count / p->grid.data;
    bool ok = true;
    for (int i = 0; ok && i < count; i++) {
        const struct zt_stored_tensor *from = &l->rank_states.tensors[p->grid.data_rank * count + i];
        ok = take(l, zt_rank_states_at(l->c->o.rank, i), ZT_RANKS_FILE, from->at, from->bytes);
    }
    if (!count && (l->manifest.files > ZT_RANKS_FILE || zt_rank_states_exist(p)))
        l->c->restarted = "the checkpoint is of another number of ranks";
    return ok;
}

static bool take_over(struct loading *l) {
    struct zt_checkpoints *c = l->c;
    const struct zt_rank_plan *p = c->o.plan;
    struct zt_rank *r = c->o.rank;
    for (int i = 0; i < r->held_count && p->offload.parameters == ZT_HOME_DEVICE; i++)
        if (!take_range(l, &r->held[i]))
            return false;
    for (int i = 0; i < p->statistic_total; i++) {
        const struct zt_stored_tensor *from = &c->files[ZT_WEIGHTS_FILE].tensors[p->statistic_model[i]];
        struct zt_place place = { ZT_STATISTICS, p->statistic_offset[i] };
        if (!take(l, zt_rank_at(r, NULL, &place, NULL), ZT_WEIGHTS_FILE, from->at, from->bytes))
            return false;
    }
    if (!zt_rank_each_piece(r, ZT_WRITES_ALL, take_piece, l, l->err) || !take_trust(l) || !take_rank_states(l) ||
        !zt_rank_shards_changed(r, l->err))
        return false;
    r->updates = l->manifest.updates;
    take_scale(l);
    if (l->manifest.observes && zt_lr_observes(p->job->config))
        r->lr_state = l->manifest.lr_state;
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

static void take_counters(struct loading *l) {
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

bool zt_checkpoint_load(struct zt_checkpoints *c, struct zt_err *err) {
    struct loading l = { .c = c, .err = err };
    bool ok = read_manifest(&l);
    for (int f = 0; ok && f < l.manifest.files && f < c->manifest.files; f++)
        ok = open_file(&l, f);
    if (ok && l.manifest.step > c->o.steps)
        ok = zt_fail(err, ZT_EXIT_CONFIG, "%s: step %lld, but the run ends at step %lld", c->o.from,
                     (long long)l.manifest.step, (long long)c->o.steps) ||
             zt_hint(err, "raise --steps or --epochs");
    ok = ok && agree(&l) && take_over(&l);
    for (int f = 0; f < ZT_STORED_FILES; f++)
        ok = zt_file_close(&l.map[f], ok, err);
    if (ok)
        take_counters(&l);
    return ok;
}
