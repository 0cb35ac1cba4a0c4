/* Data format npy: a folder with a file NAME.npy for each column, or one such file where the model reads one column.
 * The first axis counts samples. The files are mapped, so that they may be larger than memory: samples are converted
 * when they are read. Integers that could miss the column's type or range are checked once, when the data are opened.
 */
#include "data/column.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mapped.h"
#include "data/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct array {
    char *path;
    struct zt_file_map map;
    struct zt_npy npy;
    size_t sample_bytes; /* in the file */
};

struct npy_files {
    struct array at[ZT_COLUMNS];
};

static bool read_header(struct array *a, struct zt_err *err) {
    const int first = err->count;
    const struct zt_file_map *map = &a->map;
    size_t header = zt_npy_header_bytes(map->data, map->size, ZT_EXIT_DATA, err);
    bool ok = header > 0 && (header <= map->size || zt_fail(err, ZT_EXIT_DATA, "has a damaged NumPy header")) &&
              zt_npy_parse(map->data, header, &a->npy, ZT_EXIT_DATA, err);
    if (ok && a->npy.bytes != map->size - a->npy.header)
        ok = zt_fail(err, ZT_EXIT_DATA, "holds %zu bytes of elements, its header wants %zu", map->size - a->npy.header,
                     a->npy.bytes);
    if (ok && a->npy.fortran) {
        zt_fail(err, ZT_EXIT_DATA, "is in Fortran order, in which the numbers of a sample lie apart");
        ok = zt_hint(err, "numpy.save(path, numpy.ascontiguousarray(array)) writes them together");
    }
    return ok || zt_err_within(err, first, "%s", a->path);
}

static bool map_array(struct array *a, char *path, struct zt_err *err) {
    a->path = path;
    if (!zt_file_map(&a->map, path, ZT_EXIT_DATA, err))
        return false;
    zt_mapped_checked_by_reader(a->map.mapped);
    return read_header(a, err);
}

/* PATH itself, or PATH/NAME.npy. A name of the model is hostile: it must not leave the folder. The caller frees it. */
static char *array_path(const char *path, const char *name, int count, struct zt_err *err) {
    char file[512];
    if (!zt_file_is_folder(path) && count == 1)
        return zt_strdup(path);
    if (strchr(name, '/') || strlen(name) + 5 > sizeof file) {
        zt_fail(err, ZT_EXIT_DATA, "%s: column \"%s\" cannot be the name of a file", path, name);
        return NULL;
    }
    snprintf(file, sizeof file, "%s.npy", name);
    return zt_path_join(path, file);
}

static bool accept_array(struct zt_source *source, int i, const struct zt_want *want, struct zt_err *err) {
    struct npy_files *files = source->state;
    struct array *a = &files->at[i];
    const struct array *first = &files->at[0];
    struct zt_shape sample;
    if (!zt_column_sample_shape(want->name, &a->npy.shape, &sample, a->path, err) ||
        !zt_column_accept(&source->column[i], want, a->npy.dtype, &sample, a->path, err))
        return false;
    a->sample_bytes = (size_t)zt_shape_count(&sample) * zt_dtype_bytes(a->npy.dtype);
    if (first->npy.shape.rank > 0 && a->npy.shape.dim[0] != first->npy.shape.dim[0])
        return zt_fail(err, ZT_EXIT_DATA, "%s: has %lld samples, %s has %lld", a->path, (long long)a->npy.shape.dim[0],
                       first->path, (long long)first->npy.shape.dim[0]);
    return true;
}

static struct zt_values values_of(const struct array *a, int64_t first, int64_t rows) {
    return (struct zt_values){ .dtype = a->npy.dtype,
                               .at = a->map.data + a->npy.header + (size_t)first * a->sample_bytes,
                               .rows = rows,
                               .first = first,
                               .file = a->path };
}

static bool check_values(const struct zt_source *source, int i, const struct zt_want *want, struct zt_err *err) {
    const struct npy_files *files = source->state;
    const struct zt_values all = values_of(&files->at[i], 0, source->samples);
    return !zt_column_needs_check(&source->column[i], want, all.dtype) ||
           zt_column_check(&source->column[i], want, &all, err);
}

static void npy_close(struct zt_source *source) {
    struct npy_files *files = source->state;
    for (int i = 0; i < ZT_COLUMNS; i++) {
        zt_file_unmap(&files->at[i].map);
        free(files->at[i].path);
    }
    free(files);
}

static bool npy_intact(const struct zt_source *source, struct zt_err *err) {
    const struct npy_files *files = source->state;
    for (int i = 0; i < source->column_count; i++)
        if (!zt_mapped_intact(files->at[i].map.mapped, err))
            return false;
    return true;
}

static bool open_arrays(struct zt_source *source, const char *path, const struct zt_want *wants, int count,
                        struct zt_err *err) {
    struct npy_files *files = source->state;
    bool ok = true;
    if (count > 1 && !zt_file_is_folder(path)) {
        zt_fail(err, ZT_EXIT_DATA, "%s: one array, but the model reads %d columns, among them \"%s\"", path, count,
                wants[1].name);
        return zt_hint(err, "give the folder that has a file NAME.npy for each column");
    }
    for (int i = 0; i < count; i++) {
        char *file = array_path(path, wants[i].name, count, err);
        ok = file && map_array(&files->at[i], file, err) && ok;
    }
    for (int i = 0; ok && i < count; i++)
        ok = accept_array(source, i, &wants[i], err);
    source->samples = ok ? files->at[0].npy.shape.dim[0] : 0;
    return ok && (source->samples > 0 || zt_fail(err, ZT_EXIT_DATA, "%s: holds no samples", path));
}

static bool npy_open(struct zt_source *source, const struct zt_config *config, const char *path,
                     const struct zt_want *wants, int want_count, struct zt_err *err) {
    if (!zt_column_no_normalize(config, "npy", err))
        return false;
    source->state = zt_calloc(1, sizeof(struct npy_files));
    bool ok = open_arrays(source, path, wants, want_count, err);
    for (int i = 0; ok && i < want_count; i++)
        ok = check_values(source, i, &wants[i], err);
    ok = npy_intact(source, err) && ok;
    if (!ok)
        npy_close(source);
    return ok;
}

static struct zt_stored npy_stored(const struct zt_source *source, int column) {
    return (struct zt_stored){ .bytes = source->column[column].sample_bytes };
}

static void npy_keep(const struct zt_source *source, int column, int64_t first, int64_t count, void *to) {
    const struct npy_files *files = source->state;
    const struct zt_values values = values_of(&files->at[column], first, count);
    zt_column_copy(&source->column[column], &values, to);
}

static bool npy_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)err; /* every value that could be wrong was checked when the file was opened */
    npy_keep(source, column, index, 1, to);
    return true;
}

static bool npy_picture(const struct zt_source *source, int column, int64_t index, struct zt_picture *to,
                        struct zt_err *err) {
    const struct zt_column *c = &source->column[column];
    void *sample = zt_malloc(c->sample_bytes);
    npy_keep(source, column, index, 1, sample);
    bool ok = zt_column_picture(c, sample, to, err);
    free(sample);
    return ok;
}

const struct zt_format zt_format_npy = {
    .type = { .name = "npy" },
    .open = npy_open,
    .read = npy_read,
    .picture = npy_picture,
    .intact = npy_intact,
    .stored = npy_stored,
    .keep = npy_keep,
    .close = npy_close,
};
