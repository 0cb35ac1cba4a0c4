#include "report/csv_files.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "base/vec.h"
#include "report/append_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct csv_file {
    char *tag;
    struct zt_append_file out;
};

struct zt_csv_files {
    const char *folder;
    enum zt_csv_start start;
    int64_t last;
    ZT_VEC(struct csv_file) files;
};

struct zt_csv_files *zt_csv_files_create(const char *folder, enum zt_csv_start start, int64_t last) {
    struct zt_csv_files *c = zt_calloc(1, sizeof *c);
    c->folder = folder;
    c->start = start;
    c->last = last;
    return c;
}

/* Returns the end of the rows to keep of data[size]: rows are removed from the end while their step is above `last`, or
 * they are incomplete. */
static size_t kept(const char *data, size_t size, int64_t last) {
    while (size > 0) {
        const char *before = size > 1 ? memrchr(data, '\n', size - 1) : NULL;
        const char *row = before ? before + 1 : data;
        char number[24] = "";
        int64_t step;
        memcpy(number, row,
               (size_t)(data + size - row) < sizeof number ? (size_t)(data + size - row) : sizeof number - 1);
        number[strcspn(number, ",")] = 0;
        bool whole = data[size - 1] == '\n';
        if (whole && (!zt_text_number(number, &step) || step <= last))
            break;
        size = (size_t)(row - data);
    }
    return size;
}

static bool cut(const char *path, int64_t last, struct zt_err *err) {
    struct zt_file_map map;
    if (!zt_file_exists(path))
        return true;
    if (!zt_file_map(&map, path, ZT_EXIT_DATA, err))
        return false;
    size_t keep = kept((const char *)map.data, map.size, last);
    bool ok = (keep == map.size && zt_file_links(path) == 1) || zt_file_write(path, map.data, keep, err);
    return zt_file_close(&map, ok, err);
}

static char *path_of(const char *folder, const char *tag) {
    char *name = zt_malloc(strlen(tag) + 5);
    char *end = stpcpy(name, tag);
    for (char *c = name; *c; c++)
        *c = *c == '/' ? '_' : *c;
    strcpy(end, ".csv");
    char *path = zt_path_join(folder, name);
    free(name);
    return path;
}

static bool open_file(struct zt_csv_files *c, const char *tag, struct csv_file *f, struct zt_err *err) {
    const char *column = strrchr(tag, '/') ? strrchr(tag, '/') + 1 : tag;
    char *path = path_of(c->folder, tag);
    if (c->start == ZT_CSV_REPLACE)
        unlink(path);
    bool ok = (c->start != ZT_CSV_CUT || cut(path, c->last, err)) && zt_append_file_open(&f->out, path, false, err);
    if (ok && zt_append_file_is_empty(&f->out))
        zt_text_add(&f->out.pending, "step,%s\n", column);
    free(path);
    return ok;
}

static struct csv_file *find(struct zt_csv_files *c, const char *tag, struct zt_err *err) {
    struct csv_file f = { 0 };
    for (int i = 0; i < c->files.count; i++)
        if (strcmp(c->files.at[i].tag, tag) == 0)
            return &c->files.at[i];
    if (!open_file(c, tag, &f, err))
        return NULL;
    f.tag = zt_strdup(tag);
    zt_vec_push(&c->files, f);
    return &c->files.at[c->files.count - 1];
}

bool zt_csv_files_add(struct zt_csv_files *c, const char *tag, int64_t step, double value, struct zt_err *err) {
    struct csv_file *f = find(c, tag, err);
    if (f)
        zt_text_add(&f->out.pending, "%lld,%.9g\n", (long long)step, value);
    return f;
}

bool zt_csv_files_flush(struct zt_csv_files *c, bool sync, struct zt_err *err) {
    for (int i = 0; i < c->files.count; i++)
        if (!zt_append_file_flush(&c->files.at[i].out, sync, err))
            return false;
    return true;
}

bool zt_csv_files_finish(struct zt_csv_files *c, struct zt_err *err) {
    bool ok = true;
    for (int i = 0; c && i < c->files.count; i++) {
        ok = zt_append_file_close(&c->files.at[i].out, err) && ok;
        free(c->files.at[i].tag);
    }
    if (c)
        zt_vec_finish(&c->files);
    free(c);
    return ok;
}
