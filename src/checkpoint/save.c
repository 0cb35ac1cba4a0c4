/* Saving. Rank 0 creates the files at their full size. Every rank writes its slices to their places and sends the
 * checksums to rank 0, which writes the manifest and commits.
 *
 *     rank 0    create files | barrier | write own, sync | receive checksums | manifest, rename | barrier
 *     others                 | barrier | write own, sync | send checksums    |                  | barrier
 */
#include "checkpoint/save.h"

#include "base/crc.h"
#include "checkpoint/folder.h"
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
    int file[ZT_STORED_FILES];
    bool apart; /* weights and states of the ranks are: rank 0's are those of the run (rank_states.h) */
    struct zt_err *err;
};

static bool fail(struct writer *w, int f, const char *what) {
    return zt_fail(w->err, ZT_EXIT_DATA, "%s/%s: %s: %s", w->temporary, zt_stored_names[f], what,
                   strerror(errno ? errno : EIO));
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

static bool put_own(struct writer *w, const struct part *p) {
    const struct zt_rank *r = w->c->o.rank;
    const int64_t at = w->c->files[p->file].tensors[p->tensor].at + p->skip;
    const bool fetches = r->device_memory && !p->on_host;
    const void *data = fetches ? w->c->bounce : p->from;
    if (fetches && !zt_rank_fetch(r, w->c->bounce, p->from, (size_t)p->bytes, w->err))
        return false;
    add_tensor_checksum(w, p->file, p->tensor, at, data, p->bytes);
    return put(w, p->file, at, data, p->bytes);
}

static bool make_files(struct writer *w, int64_t step) {
    struct zt_checkpoints *c = w->c;
    if (c->o.world->rank != 0)
        return true;
    if (!zt_checkpoint_begin(&c->folder, step, w->err))
        return false;
    for (int f = 0; f < c->manifest.files; f++) {
        char *path = zt_path_join(w->temporary, zt_stored_names[f]);
        w->file[f] = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        free(path);
        errno = w->file[f] < 0 ? errno : 0;
        if (w->file[f] < 0 || ftruncate(w->file[f], c->files[f].bytes) != 0)
            return fail(w, f, "cannot be made");
        if (!put(w, f, 0, c->head[f].at, (int64_t)c->head[f].length))
            return false;
    }
    return true;
}

static bool open_files(struct writer *w) {
    for (int f = 0; f < w->c->manifest.files; f++) {
        char *path = zt_path_join(w->temporary, zt_stored_names[f]);
        if (w->file[f] < 0)
            w->file[f] = open(path, O_WRONLY | O_CLOEXEC);
        free(path);
        if (w->file[f] < 0) {
            fail(w, f, "cannot be opened");
            return zt_hint(w->err,
                           "all ranks write to the same file: the output folder must be on a shared file system");
        }
    }
    return true;
}

/* A slice belongs to one data-parallel rank in any layout, and a tensor on several stages to the first of them. */
static bool write_piece(void *with, const struct zt_piece *piece, struct zt_err *err) {
    struct writer *w = with;
    const struct zt_checkpoints *c = w->c;
    const struct zt_rank_plan *p = c->o.plan;
    int tensor = p->param_model[piece->tensor];
    (void)err; /* the writer has it */
    const int writer = w->apart ? 0 : c->o.rank->owned[piece->range].rank;
    if (writer != p->grid.data_rank || p->model[tensor].stage != p->grid.stage)
        return true;
    int64_t skip = (piece->first - p->flat->tensors[piece->tensor].offset) * (int64_t)sizeof(float),
            bytes = piece->count * (int64_t)sizeof(float);
    if (!put_own(w, &(struct part){ ZT_WEIGHTS_FILE, tensor, skip, bytes, piece->param, piece->on_host }))
        return false;
    for (int s = 0; s < p->optimizer_states; s++)
        if (!put_own(w, &(struct part){ ZT_OPTIMIZER_FILE, s * p->model_params + tensor, skip, bytes, piece->state[s],
                                        piece->on_host }))
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
    for (int i = 0; p->grid.data_rank == 0 && i < p->statistic_total; i++) {
        const struct zt_stored_tensor *to = &c->files[ZT_WEIGHTS_FILE].tensors[p->statistic_model[i]];
        struct zt_place place = { ZT_STATISTICS, p->statistic_offset[i] };
        if (p->model[p->statistic_model[i]].stage == p->grid.stage &&
            !put_own(w, &(struct part){ ZT_WEIGHTS_FILE, p->statistic_model[i], 0, to->bytes,
                                        zt_rank_at(r, NULL, &place, NULL), false }))
            return false;
    }
    return true;
}

/* What the optimizer remembers of tensors is the same on every rank. */
static bool write_trust(struct writer *w) {
    const struct zt_checkpoints *c = w->c;
    const struct zt_rank_plan *p = c->o.plan;
    const struct zt_rank *r = c->o.rank;
    for (int t = 0; r->trust && p->grid.data_rank == 0 && t < p->flat->tensor_count; t++) {
        const int tensor = p->optimizer_states * p->model_params + p->param_model[t];
        if (!put_own(w, &(struct part){ ZT_OPTIMIZER_FILE, tensor, 0, sizeof *r->trust, &r->trust[t], false }))
            return false;
    }
    return true;
}

/* Some at a time, as the host buffer for copies holds no more. */
static bool put_long(struct writer *w, int f, int tensor, const char *from) {
    const int64_t most = ZT_PIECE * (int64_t)sizeof(float), bytes = w->c->files[f].tensors[tensor].bytes;
    bool ok = true;
    for (int64_t done = 0; ok && done < bytes; done += most)
        ok = put_own(w,
                     &(struct part){ f, tensor, done, bytes - done < most ? bytes - done : most, from + done, false });
    return ok;
}

static bool write_rank_states(struct writer *w) {
    const struct zt_checkpoints *c = w->c;
    const int count = c->manifest.files > ZT_RANKS_FILE ? zt_rank_states_count(c->o.plan, w->apart) : 0;
    for (int i = 0; i < count; i++)
        if (!put_long(w, ZT_RANKS_FILE, c->o.plan->grid.data_rank * count + i, zt_rank_states_at(c->o.rank, i)))
            return false;
    return true;
}

/* The file has more tensors where weights and states of the ranks are apart. */
static void choose_rank_states(struct zt_checkpoints *c, bool apart) {
    if (c->manifest.files <= ZT_RANKS_FILE)
        return;
    c->files[ZT_RANKS_FILE] = c->rank_states[apart];
    c->head[ZT_RANKS_FILE] = c->rank_heads[apart];
    c->manifest.file_bytes[ZT_RANKS_FILE] = c->files[ZT_RANKS_FILE].bytes;
    c->manifest.tensor_crc[ZT_RANKS_FILE] = c->crc[ZT_RANKS_FILE] + zt_block_count(c->files[ZT_RANKS_FILE].bytes);
    c->manifest.tensors[ZT_RANKS_FILE] = c->files[ZT_RANKS_FILE].count;
}

static bool sync_files(struct writer *w) {
    for (int f = 0; f < w->c->manifest.files; f++) {
        int fd = w->file[f], failed = fsync(fd);
        w->file[f] = -1;
        if ((close(fd) | failed) != 0)
            return fail(w, f, "cannot flush to disk");
    }
    return true;
}

static bool gather_checksums(struct writer *w) {
    struct zt_checkpoints *c = w->c;
    struct zt_comm *world = c->o.world;
    for (int f = 0; f < c->manifest.files; f++) {
        int64_t blocks = zt_checksum_count(&c->files[f]);
        size_t bytes = (size_t)blocks * sizeof *c->crc[f];
        if (world->rank != 0 && !world->api->send(world, c->crc[f], bytes, 0, w->err))
            return false;
        for (int r = 1; world->rank == 0 && r < world->size; r++) {
            if (!world->api->recv(world, c->peer_crc, bytes, r, w->err))
                return false;
            for (int64_t b = 0; b < blocks; b++)
                c->crc[f][b] ^= c->peer_crc[b];
        }
    }
    return true;
}

static int64_t all_bytes(const struct zt_checkpoints *c) {
    int64_t bytes = 0;
    for (int f = 0; f < c->manifest.files; f++)
        bytes += c->files[f].bytes;
    return bytes;
}

static bool commit(struct writer *w, int64_t step, struct zt_console *console) {
    struct zt_checkpoints *c = w->c;
    struct zt_text text = { 0 };
    if (c->o.world->rank != 0)
        return true;
    if (!c->recorded && !zt_record_make(c->o.session, c->arena, &c->manifest, w->err))
        return false;
    c->recorded = true;
    c->manifest.step = step;
    const struct zt_epoch_place place = zt_epochs_at(&c->o.epochs, step);
    c->manifest.epoch = place.epoch;
    c->manifest.batch = place.batch;
    c->manifest.updates = c->o.rank->updates;
    const struct zt_scaling *scaling = &c->o.rank->scaling;
    c->manifest.observes = zt_lr_observes(c->o.plan->job->config);
    c->manifest.lr_state = c->o.rank->lr_state;
    c->manifest.scale = scaling->dynamic ? scaling->scale : 0;
    c->manifest.since_overflow = scaling->since;
    c->manifest.hysteresis = scaling->hysteresis;
    zt_manifest_write(&c->manifest, &text);
    char *path = zt_path_join(w->temporary, ZT_MANIFEST);
    bool ok = zt_file_write(path, text.at, text.length, w->err) && zt_console_sync(console, w->err) &&
              zt_checkpoint_commit(&c->folder, step, w->err);
    free(path);
    path = zt_checkpoint_path(&c->folder, step);
    if (ok)
        zt_console_checkpoint(console, step, path, all_bytes(c));
    free(path);
    zt_text_finish(&text);
    return ok;
}

bool zt_checkpoint_save(struct zt_checkpoints *c, int64_t step, struct zt_console *console, struct zt_err *err) {
    struct zt_comm *world = c->o.world;
    struct writer w = {
        .c = c, .temporary = zt_checkpoint_temporary(&c->folder, step), .file = { -1, -1, -1 }, .err = err
    };
    w.apart = zt_rank_states_exist(c->o.plan) && zt_rank_states_apart(c->o.plan, c->o.rank->updates);
    choose_rank_states(c, w.apart);
    for (int f = 0; f < c->manifest.files; f++)
        memset(c->crc[f], 0, (size_t)zt_checksum_count(&c->files[f]) * sizeof *c->crc[f]);
    bool ok = make_files(&w, step) && world->api->barrier(world, err) && open_files(&w) && write_slices(&w) &&
              write_trust(&w) && write_rank_states(&w) && sync_files(&w) && gather_checksums(&w) &&
              commit(&w, step, console) && world->api->barrier(world, err);
    for (int f = 0; f < ZT_STORED_FILES; f++)
        if (w.file[f] >= 0)
            close(w.file[f]);
    if (!ok && world->rank == 0)
        zt_checkpoint_abandon(&c->folder, step);
    free(w.temporary);
    return ok;
}
