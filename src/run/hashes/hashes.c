#include "run/hashes/hashes.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/show.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = sizeof(struct zt_hash_place) / sizeof(uint32_t), RECORD_BYTES = 20, TEXTS = 4 };
static const char magic[8] = "ZTHASH1\n";

char *zt_hash_path(const char *folder, int rank) {
    char name[40];
    snprintf(name, sizeof name, "hashes-%d.bin", rank);
    return zt_path_join(folder, name);
}

void zt_hash_remove(const char *folder, int rank, int ranks) {
    char *path = zt_hash_path(folder, rank);
    remove(path);
    free(path);
    for (int r = ranks; rank == 0; r++) {
        path = zt_hash_path(folder, r);
        bool gone = remove(path) != 0;
        free(path);
        if (gone)
            break;
    }
}

/* ---- writing ---- */

struct zt_hash_writer {
    FILE *file;
    char *path;
    struct zt_text step; /* hashes of the current step */
};

static void put(struct zt_text *to, uint64_t value, int bytes) {
    unsigned char text[8];
    for (int i = 0; i < bytes; i++)
        text[i] = (unsigned char)(value >> 8 * i);
    zt_text_add_bytes(to, text, (size_t)bytes);
}

static void put_text(struct zt_text *to, const char *text) {
    size_t n = strlen(text);
    n = n < UINT16_MAX ? n : UINT16_MAX;
    put(to, n, 2);
    zt_text_add_bytes(to, text, n);
}

struct zt_hash_writer *zt_hash_writer_create(const char *folder, const struct zt_hash_place *place,
                                             const struct zt_hash_tensor *tensors, int count, struct zt_err *err) {
    struct zt_hash_writer *w = zt_calloc(1, sizeof *w);
    uint32_t numbers[PLACES];
    w->path = zt_hash_path(folder, (int)place->rank);
    w->file = fopen(w->path, "wbxe");
    if (!w->file) {
        zt_fail(err, ZT_EXIT_DATA, "%s: cannot be written: %s", w->path, strerror(errno));
        zt_hash_writer_finish(w);
        return NULL;
    }
    memcpy(numbers, place, sizeof numbers);
    zt_text_add_bytes(&w->step, magic, sizeof magic);
    for (int i = 0; i < PLACES; i++)
        put(&w->step, numbers[i], 4);
    put(&w->step, (uint64_t)count, 4);
    for (int i = 0; i < count; i++) {
        put_text(&w->step, tensors[i].node);
        put_text(&w->step, tensors[i].op);
        put_text(&w->step, tensors[i].name);
        put_text(&w->step, tensors[i].type);
        put(&w->step, tensors[i].backward, 1);
    }
    if (zt_hash_writer_step(w, err))
        return w;
    zt_hash_writer_finish(w);
    return NULL;
}

void zt_hash_writer_add(struct zt_hash_writer *w, const struct zt_hash_record *record) {
    put(&w->step, record->step, 4);
    put(&w->step, record->micro_batch, 4);
    put(&w->step, record->tensor, 4);
    put(&w->step, record->hash, 8);
}

bool zt_hash_writer_step(struct zt_hash_writer *w, struct zt_err *err) {
    bool ok = (w->step.length == 0 || fwrite(w->step.at, w->step.length, 1, w->file) == 1) && fflush(w->file) == 0;
    w->step.length = 0;
    return ok || zt_fail(err, ZT_EXIT_DATA, "%s: cannot be written: %s", w->path, strerror(errno));
}

void zt_hash_writer_finish(struct zt_hash_writer *w) {
    if (!w)
        return;
    if (w->file)
        fclose(w->file);
    zt_text_finish(&w->step);
    free(w->path);
    free(w);
}

/* ---- reading ---- */

/* The remaining bytes of a file. A failed read sets `bad` and returns zeros. */
struct input {
    const unsigned char *at;
    size_t left;
    bool bad;
};

static uint64_t take(struct input *in, int bytes) {
    uint64_t value = 0;
    if (in->left < (size_t)bytes) {
        in->bad = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)in->at[i] << 8 * i;
    in->at += bytes;
    in->left -= (size_t)bytes;
    return value;
}

static const char *take_text(struct input *in, struct zt_arena *arena) {
    size_t n = take(in, 2);
    if (in->left < n) {
        in->bad = true;
        return "";
    }
    const char *raw = zt_arena_strndup(arena, (const char *)in->at, n);
    char *text = zt_arena_alloc(arena, ZT_SHOWN_MOST * n + 1);
    zt_show(text, ZT_SHOWN_MOST * n + 1, raw);
    in->at += n;
    in->left -= n;
    return text;
}

static bool sensible(const struct zt_hash_place *p) {
    return p->rank < p->ranks && p->ranks <= 65536 && p->data_rank < p->data_ranks && p->stage < p->stages &&
           p->data_ranks <= 65536 && p->stages <= 65536 && (uint64_t)p->data_ranks * p->stages == p->ranks;
}

/* Each tensor takes at least 9 bytes, so a count beyond the file's size is rejected before memory is allocated. */
static bool read_tensors(struct zt_hash_file *f, struct input *in) {
    f->tensor_count = (uint32_t)take(in, 4);
    if (in->bad || f->tensor_count > in->left / (2 * TEXTS + 1))
        return false;
    f->tensors = ZT_NEW_N(f->arena, struct zt_hash_tensor, (size_t)f->tensor_count + 1);
    for (uint32_t i = 0; i < f->tensor_count && !in->bad; i++) {
        struct zt_hash_tensor *t = &f->tensors[i];
        t->node = take_text(in, f->arena);
        t->op = take_text(in, f->arena);
        t->name = take_text(in, f->arena);
        t->type = take_text(in, f->arena);
        t->backward = (uint32_t)take(in, 1);
        in->bad |= t->backward > 1;
    }
    return !in->bad;
}

static bool read_records(struct zt_hash_file *f, struct input *in) {
    f->record_count = (int64_t)(in->left / RECORD_BYTES);
    f->records = ZT_NEW_N(f->arena, struct zt_hash_record, f->record_count + 1);
    for (int64_t i = 0; i < f->record_count; i++) {
        struct zt_hash_record *r = &f->records[i];
        r->step = (uint32_t)take(in, 4);
        r->micro_batch = (uint32_t)take(in, 4);
        r->tensor = (uint32_t)take(in, 4);
        r->hash = take(in, 8);
        if (r->step == 0 || (i && r->step < r[-1].step) || r->tensor >= f->tensor_count)
            return false;
    }
    return true;
}

bool zt_hash_file_read(struct zt_hash_file *f, const char *path, struct zt_err *err) {
    struct zt_file_map map;
    uint32_t numbers[PLACES];
    *f = (struct zt_hash_file){ 0 };
    if (!zt_file_map(&map, path, ZT_EXIT_DATA, err))
        return false;
    struct input in = { .at = map.data, .left = map.size };
    bool ok = map.size >= sizeof magic && memcmp(map.data, magic, sizeof magic) == 0;
    if (!ok)
        zt_fail(err, ZT_EXIT_DATA, "%s: not a file of hashes", path);
    f->arena = zt_arena_create();
    if (ok) {
        in.at += sizeof magic;
        in.left -= sizeof magic;
        for (int i = 0; i < PLACES; i++)
            numbers[i] = (uint32_t)take(&in, 4);
        memcpy(&f->place, numbers, sizeof numbers);
        if (in.bad || !sensible(&f->place) || !read_tensors(f, &in))
            ok = zt_fail(err, ZT_EXIT_DATA, "%s: the list of tensors is damaged", path);
        else if (in.left % RECORD_BYTES)
            ok = zt_fail(err, ZT_EXIT_DATA, "%s: cut off in the middle of a hash", path);
        else if (!read_records(f, &in))
            ok = zt_fail(err, ZT_EXIT_DATA, "%s: the list of hashes is damaged", path);
    }
    return zt_file_close(&map, ok, err);
}

void zt_hash_file_finish(struct zt_hash_file *f) {
    zt_arena_destroy(f->arena);
    *f = (struct zt_hash_file){ 0 };
}
