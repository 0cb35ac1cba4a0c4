/* Saving. The first rank of each folder (storage.h) creates the files at their full size. Every rank writes its slices
 * to their places; of a checkpoint in parts each rank creates and writes its own file. When all are on disk, rank 0
 * makes the manifest. Every folder has its own before any is committed.
 *
 *     first rank    create files |         | collect checksums, write manifest |         | rename |
 *     all                        | barrier | write own, sync                   | barrier |        | barrier
 */
#include "checkpoint/save.h"

#include "base/crc.h"
#include "checkpoint/folder.h"
#include "checkpoint/parts.h"
#include "checkpoint/rank_states.h"
#include "checkpoint/record.h"
#include "optim/one_bit/trust.h"
#include "run/rank/blocks.h"
#include "run/rank/passes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct writer {
    struct zt_checkpoints *c;
    char *temporary;
    int file[ZT_FILES];
    struct zt_arena *arena; /* of this checkpoint */
    struct zt_part part;    /* with parts: the slices of this rank */
    bool apart;             /* weights and states of the ranks are: rank 0's are those of the run (rank_states.h) */
    struct zt_err *err;
};

/* Returns the path of a file. The caller frees with free(). */
static char *path_of(const struct writer *w, int f) {
    char name[ZT_PART_NAME];
    zt_part_name(name, w->c->o.world->rank, w->c->o.world->size);
    return zt_path_join(w->temporary, f == ZT_PART_FILE ? name : zt_stored_names[f]);
}

/* The files that this rank writes to: first_file..end_file-1. */
static int first_file(const struct writer *w) {
    return w->c->storage.parts ? ZT_PART_FILE : 0;
}

static int end_file(const struct writer *w) {
    return w->c->storage.parts ? ZT_FILES : w->c->manifest.files;
}

static bool fail(struct writer *w, int f, const char *what) {
    char *path = path_of(w, f);
    zt_fail(w->err, ZT_EXIT_DATA, "%s: %s: %s", path, what, strerror(errno ? errno : EIO));
    free(path);
    return false;
}

static void add_checksums(struct writer *w, int f, int64_t at, const char *data, int64_t bytes) {
    while (bytes > 0) {
        int64_t block = at / ZT_BLOCK_BYTES, end = (block + 1) * ZT_BLOCK_BYTES;
        end = end < w->c->files[f].bytes ? end : w->c->files[f].bytes;
        int64_t n = bytes < end - at ? bytes : end - at;
        w->c->crc[f][block] ^= zt_crc32c_shift(zt_crc32c(0, data, (size_t)n), (uint64_t)(end - at - n));
        at += n;
        data += n;
        bytes -= n;
    }
}

/* Part of a tensor's checksum, shifted to the end of the tensor. */
static void add_tensor_checksum(struct writer *w, int f, int tensor, int64_t at, const void *data, int64_t bytes) {
    const struct zt_stored_tensor *t = &w->c->files[f].tensors[tensor];
    w->c->crc[f][zt_block_count(w->c->files[f].bytes) + tensor] ^=
        zt_crc32c_shift(zt_crc32c(0, data, (size_t)bytes), (uint64_t)(t->at + t->bytes - at - bytes));
}

static bool put(struct writer *w, int f, int64_t at, const void *data, int64_t bytes) {
    add_checksums(w, f, at, data, bytes);
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(w->file[f], (const char *)data + done, (size_t)(bytes - done), at + done);
        if (n < 0 && errno != EINTR)
            return fail(w, f, "cannot be written");
        done += n > 0 ? n : 0;
    }
    return true;
}

/* Contents of a tensor in the rank's memory, `skip` bytes behind its beginning. */
struct part {
    int file, tensor;
    int64_t skip, bytes;
    const void *from;
    bool on_host; /* the contents are in host memory beside a device */
};

/* Writes what this rank has to write of it. */
static bool put_own(struct writer *w, const struct part *part) {
    const struct zt_rank *r = w->c->o.rank;
    struct part to = *part;
    if (w->c->storage.parts) {
        const int i = zt_part_find(&w->part, part->file, part->tensor, part->skip / (int64_t)sizeof(float));
        if (i < 0)
            return true;
        to.file = ZT_PART_FILE;
        to.tensor = i;
        to.skip -= w->part.slices[i].first * (int64_t)sizeof(float);
    }
    const int64_t at = w->c->files[to.file].tensors[to.tensor].at + to.skip;
    const bool fetches = r->device_memory && !to.on_host;
    const void *data = fetches ? w->c->bounce : to.from;
    if (fetches && !zt_rank_fetch(r, w->c->bounce, to.from, (size_t)to.bytes, w->err))
        return false;
    add_tensor_checksum(w, to.file, to.tensor, at, data, to.bytes);
    return put(w, to.file, at, data, to.bytes);
}

static bool make_file(struct writer *w, int f) {
    const struct zt_checkpoints *c = w->c;
    char *path = path_of(w, f);
    w->file[f] = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    free(path);
    errno = w->file[f] < 0 ? errno : 0;
    if (w->file[f] < 0 || ftruncate(w->file[f], c->files[f].bytes) != 0)
        return fail(w, f, "cannot be made");
    return put(w, f, 0, c->head[f].at, (int64_t)c->head[f].length);
}

static bool make_files(struct writer *w, int64_t step) {
    const struct zt_checkpoints *c = w->c;
    if (!zt_storage_leads(&c->storage))
        return true;
    if (!zt_checkpoint_begin(&c->folder, step, w->err))
        return false;
    for (int f = 0; !c->storage.parts && f < c->manifest.files; f++)
        if (!make_file(w, f))
            return false;
    return true;
}

static bool open_files(struct writer *w) {
    if (w->c->storage.parts)
        return make_file(w, ZT_PART_FILE);
    for (int f = 0; f < w->c->manifest.files; f++) {
        char *path = path_of(w, f);
        if (w->file[f] < 0)
            w->file[f] = open(path, O_WRONLY | O_CLOEXEC);
        free(path);
        if (w->file[f] < 0) {
            fail(w, f, "cannot be opened");
            return zt_hint(w->err,
                           "all ranks write to the same file: the output folder must be on a shared file system, or "
                           "checkpoint.use_node_local_storage on");
        }
    }
    return true;
}

/* Whether this rank writes elements that data rank `owner` updates, or the part of it does, if there is a slice: one
 * rank of the folder does, and a tensor on several stages belongs to the first of them. */
static bool writes(const struct zt_checkpoints *c, int tensor, int owner) {
    const struct zt_checkpoint_storage *s = &c->storage;
    return s->parts ||
           (owner % s->peers == s->index && c->o.plan->tensors.model[tensor].stage == c->o.plan->grid.stage);
}

static bool write_piece(void *with, const struct zt_piece *piece, struct zt_err *err) {
    struct writer *w = with;
    const struct zt_checkpoints *c = w->c;
    const struct zt_rank_plan *p = c->o.plan;
    int tensor = p->tensors.param_model[piece->tensor];
    (void)err; /* the writer has it */
    if (!writes(c, tensor, w->apart ? 0 : c->o.rank->owned[piece->range].rank))
        return true;
    int64_t skip = (piece->first - p->tensors.flat->tensors[piece->tensor].offset) * (int64_t)sizeof(float),
            bytes = piece->count * (int64_t)sizeof(float);
    if (!put_own(w, &(struct part){ ZT_WEIGHTS_FILE, tensor, skip, bytes, piece->param, piece->on_host }))
        return false;
    for (int s = 0; s < p->memory.optimizer_states; s++)
        if (!put_own(w, &(struct part){ ZT_OPTIMIZER_FILE, s * p->tensors.model_params + tensor, skip, bytes,
                                        piece->state[s], piece->on_host }))
            return false;
    return true;
}

/* Writes this rank's slices, and statistics once. */
static bool write_slices(struct writer *w) {
    const struct zt_checkpoints *c = w->c;
    const struct zt_rank_plan *p = c->o.plan;
    struct zt_rank *r = c->o.rank;
    if (!zt_rank_each_piece(r, ZT_READS_ALL, write_piece, w, w->err))
        return false;
    for (int i = 0; i < p->tensors.statistic_total; i++) {
        const struct zt_stored_tensor *to = &c->files[ZT_WEIGHTS_FILE].tensors[p->tensors.statistic_model[i]];
        struct zt_place place = { ZT_STATISTICS, p->tensors.statistic_offset[i] };
        if (writes(c, p->tensors.statistic_model[i], 0) &&
            !put_own(w, &(struct part){ ZT_WEIGHTS_FILE, p->tensors.statistic_model[i], 0, to->bytes,
                                        zt_rank_at(r, NULL, &place, NULL), false }))
            return false;
    }
    return true;
}

/* Writes the state of tensors in the optimizer, which is equal on all ranks. */
static bool write_trust(struct writer *w) {
    const struct zt_checkpoints *c = w->c;
    const struct zt_rank_plan *p = c->o.plan;
    const struct zt_rank *r = c->o.rank;
    for (int t = 0; r->trust && t < p->tensors.flat->tensor_count; t++) {
        const int tensor = p->memory.optimizer_states * p->tensors.model_params + p->tensors.param_model[t];
        if (writes(c, p->tensors.param_model[t], 0) &&
            !put_own(w, &(struct part){ ZT_OPTIMIZER_FILE, tensor, 0, sizeof *r->trust, &r->trust[t], false }))
            return false;
    }
    return true;
}

/* `what` a piece at a time, as the host buffer for copies holds no more. */
static bool put_long(struct writer *w, const struct part *what) {
    const int64_t most = ZT_PIECE * (int64_t)sizeof(float);
    struct part some = *what;
    bool ok = true;
    for (int64_t done = 0; ok && done < what->bytes; done += most) {
        some.skip = what->skip + done;
        some.bytes = what->bytes - done < most ? what->bytes - done : most;
        some.from = (const char *)what->from + done;
        ok = put_own(w, &some);
    }
    return ok;
}

/* With parts: what other ranks update and this one needs to resume. */
static bool write_held(struct writer *w) {
    bool ok = true;
    for (int i = 0; ok && i < w->part.count; i++) {
        const struct zt_part_slice *s = &w->part.slices[i];
        const int64_t bytes = (s->end - s->first) * (int64_t)sizeof(float);
        if (s->held)
            ok = put_long(
                w, &(struct part){ s->file, s->tensor, s->first * (int64_t)sizeof(float), bytes, s->held, false });
    }
    return ok;
}

static bool write_rank_states(struct writer *w) {
    const struct zt_checkpoints *c = w->c;
    const int count = c->manifest.files > ZT_RANKS_FILE ? zt_rank_states_count(c->o.plan, w->apart) : 0;
    for (int i = 0; i < count; i++) {
        const int tensor = c->o.plan->grid.data_rank * count + i;
        if (!put_long(w, &(struct part){ ZT_RANKS_FILE, tensor, 0, c->files[ZT_RANKS_FILE].tensors[tensor].bytes,
                                         zt_rank_states_at(c->o.rank, i), false }))
            return false;
    }
    return true;
}

/* The file has more tensors where weights and states of the ranks are apart. */
static void choose_rank_states(struct zt_checkpoints *c, bool apart) {
    if (c->manifest.files <= ZT_RANKS_FILE)
        return;
    c->files[ZT_RANKS_FILE] = c->rank_states[apart];
    c->head[ZT_RANKS_FILE] = c->rank_heads[apart];
    c->manifest.file[ZT_RANKS_FILE].bytes = c->files[ZT_RANKS_FILE].bytes;
    c->manifest.file[ZT_RANKS_FILE].tensor_crc = c->crc[ZT_RANKS_FILE] + zt_block_count(c->files[ZT_RANKS_FILE].bytes);
    c->manifest.file[ZT_RANKS_FILE].tensors = c->files[ZT_RANKS_FILE].count;
}

/* Lays out the part of this rank. */
static bool lay_out_part(struct writer *w) {
    struct zt_checkpoints *c = w->c;
    if (!c->storage.parts)
        return true;
    zt_part_make(c, w->arena, &w->part, &c->files[ZT_PART_FILE]);
    zt_stored_layout(&c->files[ZT_PART_FILE], &c->head[ZT_PART_FILE]);
    c->crc[ZT_PART_FILE] = ZT_NEW_N(w->arena, uint32_t, zt_checksum_count(&c->files[ZT_PART_FILE]) + 1);
    return c->head[ZT_PART_FILE].length <= ZT_STORED_TEXT_MAX ||
           zt_fail(w->err, ZT_EXIT_MODEL, "a part of a checkpoint cannot hold %d slices", c->files[ZT_PART_FILE].count);
}

static bool sync_files(struct writer *w) {
    for (int f = first_file(w); f < end_file(w); f++) {
        int fd = w->file[f], failed = fsync(fd);
        w->file[f] = -1;
        if ((close(fd) | failed) != 0)
            return fail(w, f, "cannot flush to disk");
    }
    return true;
}

static bool gather_checksums(struct writer *w) {
    struct zt_checkpoints *c = w->c;
    struct zt_comm *here = c->storage.here;
    if (c->storage.parts)
        return zt_parts_gather(c, w->err);
    for (int f = 0; f < c->manifest.files; f++) {
        int64_t blocks = zt_checksum_count(&c->files[f]);
        size_t bytes = (size_t)blocks * sizeof *c->crc[f];
        if (here->rank != 0 && !here->api->send(here, c->crc[f], bytes, 0, w->err))
            return false;
        for (int r = 1; here->rank == 0 && r < here->size; r++) {
            if (!here->api->recv(here, c->peer_crc, bytes, r, w->err))
                return false;
            for (int64_t b = 0; b < blocks; b++)
                c->crc[f][b] ^= c->peer_crc[b];
        }
    }
    return true;
}

/* Whole checkpoints of several hosts are the same, as their manifest is. */
static bool compare_hosts(struct writer *w) {
    const struct zt_checkpoints *c = w->c;
    const struct zt_checkpoint_storage *s = &c->storage;
    if (!s->several || s->parts)
        return true;
    uint32_t *sums = zt_calloc((size_t)c->o.world->size, sizeof *sums), *own = &sums[c->o.world->rank];
    for (int f = 0; f < c->manifest.files; f++)
        *own = zt_crc32c(*own, c->crc[f], (size_t)zt_checksum_count(&c->files[f]) * sizeof *c->crc[f]);
    bool ok = zt_comm_exchange(c->o.world, sums, sizeof *sums, w->err);
    for (int i = 1; ok && i < c->o.world->size; i++)
        if (s->first[i] == i && sums[i] != sums[0])
            ok = zt_fail(w->err, zt_comm_found_by_all(c->o.world, ZT_EXIT_DATA),
                         "the weights or states of rank %d on %s differ from those of rank 0 on %s", i, s->host[i],
                         s->host[0]);
    free(sums);
    return ok;
}

static int64_t all_bytes(const struct zt_checkpoints *c) {
    int64_t bytes = 0;
    for (int f = 0; !c->storage.parts && f < c->manifest.files; f++)
        bytes += c->files[f].bytes;
    for (int i = 0; i < c->manifest.part_count; i++)
        bytes += c->manifest.parts[i].sums.bytes;
    return bytes;
}

/* Rank 0 writes the manifest as text. */
static bool make_manifest(struct writer *w, int64_t step, struct zt_text *text) {
    struct zt_checkpoints *c = w->c;
    if (c->o.world->rank != 0)
        return true;
    if (!c->recorded && !zt_record_make(c->o.session, c->arena, &c->manifest, w->err))
        return false;
    c->recorded = true;
    struct zt_manifest m = c->manifest;
    const struct zt_epoch_place place = zt_epochs_at(&c->o.epochs, step);
    m.step = step;
    m.epoch = place.epoch;
    m.batch = place.batch;
    m.updates = c->o.rank->updates;
    const struct zt_scaling *scaling = &c->o.rank->scaling;
    m.observes = zt_lr_observes(c->o.plan->job->config);
    m.lr_state = c->o.rank->lr_state;
    m.scale = scaling->dynamic ? scaling->scale : 0;
    m.since_overflow = scaling->since;
    m.hysteresis = scaling->hysteresis;
    m.files = c->storage.parts ? 0 : m.files;
    m.weights = c->storage.parts ? &c->files[ZT_WEIGHTS_FILE] : NULL;
    zt_manifest_write(&m, text);
    return true;
}

/* Brings the manifest to the first rank of every folder. */
static bool share_manifest(struct writer *w, struct zt_text *text) {
    struct zt_comm *world = w->c->o.world;
    uint64_t length = text->length;
    if (!w->c->storage.several)
        return true;
    if (!world->api->broadcast(world, &length, sizeof length, 0, w->err))
        return false;
    char *copy = zt_malloc((size_t)length + 1);
    if (world->rank == 0)
        memcpy(copy, text->at, (size_t)length);
    bool ok = world->api->broadcast(world, copy, (size_t)length, 0, w->err);
    if (ok && world->rank != 0)
        zt_text_add_bytes(text, copy, (size_t)length);
    free(copy);
    return ok;
}

/* Writes the manifest and, when all folders have theirs, makes the checkpoint the latest. */
static bool commit(struct writer *w, int64_t step, struct zt_console *console) {
    struct zt_checkpoints *c = w->c;
    struct zt_comm *world = c->o.world;
    const bool leads = zt_storage_leads(&c->storage);
    struct zt_text text = { 0 };
    char *path = zt_path_join(w->temporary, ZT_MANIFEST);
    bool ok = make_manifest(w, step, &text) && share_manifest(w, &text) &&
              (!leads || zt_file_write(path, text.at, text.length, w->err)) &&
              (world->rank != 0 || zt_console_sync(console, w->err)) &&
              (!c->storage.several || world->api->barrier(world, w->err)) &&
              (!leads || zt_checkpoint_commit(&c->folder, step, w->err)) && world->api->barrier(world, w->err);
    free(path);
    path = zt_checkpoint_path(&c->folder, step);
    if (ok && world->rank == 0)
        zt_console_checkpoint(console, step, path, all_bytes(c));
    free(path);
    zt_text_finish(&text);
    return ok;
}

bool zt_checkpoint_save(struct zt_checkpoints *c, int64_t step, struct zt_console *console, struct zt_err *err) {
    struct zt_comm *here = c->storage.here;
    struct writer w = { .c = c,
                        .temporary = zt_checkpoint_temporary(&c->folder, step),
                        .file = { -1, -1, -1, -1 },
                        .arena = zt_arena_create(),
                        .err = err };
    w.apart = zt_rank_states_exist(c->o.plan) && zt_rank_states_apart(c->o.plan, c->o.rank->updates);
    choose_rank_states(c, w.apart);
    bool ok = lay_out_part(&w);
    for (int f = first_file(&w); f < end_file(&w); f++)
        memset(c->crc[f], 0, (size_t)zt_checksum_count(&c->files[f]) * sizeof *c->crc[f]);
    ok = ok && make_files(&w, step) && here->api->barrier(here, err) && open_files(&w) && write_slices(&w) &&
         write_held(&w) && write_trust(&w) && write_rank_states(&w) && sync_files(&w) && gather_checksums(&w) &&
         compare_hosts(&w) && commit(&w, step, console);
    for (int f = 0; f < ZT_FILES; f++)
        if (w.file[f] >= 0)
            close(w.file[f]);
    if (!ok && zt_storage_leads(&c->storage))
        zt_checkpoint_abandon(&c->folder, step);
    zt_arena_destroy(w.arena);
    free(w.temporary);
    return ok;
}
