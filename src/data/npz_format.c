/* Data format npz: arrays named after the columns, the first axis counts samples. The wanted arrays are held in memory
 * for the run, converted once. */
#include "data/column.h"
#include "data/npz.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static bool accept_array(struct zt_source *source, int i, const struct zt_npz *npz, const struct zt_want *want,
                         const char *path, struct zt_err *err) {
    const struct zt_npz_array *array = &npz->at[i], *first = &npz->at[0];
    struct zt_shape sample = { 0 };
    if (!zt_column_sample_shape(array->name, &array->shape, &sample, path, err) ||
        !zt_column_accept(&source->column[i], want, array->dtype, &sample, path, err))
        return false;
    if (first->shape.rank > 0 && array->shape.dim[0] != first->shape.dim[0])
        return zt_fail(err, ZT_EXIT_DATA, "%s: column \"%s\" has %lld samples, column \"%s\" has %lld", path,
                       array->name, (long long)array->shape.dim[0], first->name, (long long)first->shape.dim[0]);
    return true;
}

/* Checks the values of an array and converts it to the column's type. */
static bool convert_array(const struct zt_source *source, int i, struct zt_npz_array *array, const struct zt_want *want,
                          const char *path, struct zt_err *err) {
    const struct zt_column *column = &source->column[i];
    size_t bytes = (size_t)source->samples * column->sample_bytes;
    void *to = array->data;
    if (array->dtype != column->dtype) {
        to = zt_block_create(bytes, path, err);
        if (!to)
            return false;
    }
    const struct zt_values values = { .dtype = array->dtype, .at = array->data, .rows = source->samples, .file = path };
    bool ok = zt_column_convert(column, want, &values, to, err);
    if (to != array->data) {
        zt_block_destroy(array->data, array->bytes);
        array->data = to;
        array->bytes = bytes;
    }
    return ok;
}

static bool npz_take(struct zt_source *source, struct zt_npz *npz, const struct zt_want *wants, const char *path,
                     struct zt_err *err) {
    bool ok = true;
    for (int i = 0; i < npz->count; i++)
        ok = accept_array(source, i, npz, &wants[i], path, err) && ok;
    if (!ok)
        return false;
    source->samples = npz->count ? npz->at[0].shape.dim[0] : 0;
    if (source->samples == 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: holds no samples", path);
    for (int i = 0; i < npz->count; i++)
        ok = convert_array(source, i, &npz->at[i], &wants[i], path, err) && ok;
    return ok;
}

static void npz_close(struct zt_source *source) {
    zt_npz_finish(source->state);
    free(source->state);
}

static bool npz_open(struct zt_source *source, const struct zt_config *config, const char *path,
                     const struct zt_want *wants, int want_count, struct zt_err *err) {
    const char *names[ZT_COLUMNS];
    for (int i = 0; i < want_count; i++)
        names[i] = wants[i].name;
    if (!zt_column_no_normalize(config, "npz", err))
        return false;
    struct zt_npz *npz = source->state = zt_calloc(1, sizeof *npz);
    if (zt_npz_read_named(path, names, want_count, npz, ZT_EXIT_DATA, err) && npz_take(source, npz, wants, path, err))
        return true;
    for (int i = 0; i < want_count; i++)
        if (npz->missing == wants[i].name && wants[i].use == ZT_WANT_TARGET)
            zt_hint(err, "ztrain.loss.target names the array of the targets: --set ztrain.loss.target=NAME");
        else if (npz->missing == wants[i].name && wants[i].use == ZT_WANT_INPUT)
            zt_hint(err, "the array of an input has the name of the input; `ztrain inspect` lists the inputs");
    npz_close(source);
    return false;
}

static struct zt_stored npz_stored(const struct zt_source *source, int column) {
    return (struct zt_stored){ .bytes = source->column[column].sample_bytes };
}

static void npz_keep(const struct zt_source *source, int column, int64_t first, int64_t count, void *to) {
    const struct zt_npz *npz = source->state;
    size_t bytes = source->column[column].sample_bytes;
    memcpy(to, (const char *)npz->at[column].data + (size_t)first * bytes, (size_t)count * bytes);
}

static bool npz_sample(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)err; /* every value was checked when the file was opened */
    npz_keep(source, column, index, 1, to);
    return true;
}

static bool npz_picture(const struct zt_source *source, int column, int64_t index, struct zt_picture *to,
                        struct zt_err *err) {
    const struct zt_npz *npz = source->state;
    const struct zt_column *c = &source->column[column];
    return zt_column_picture(c, (const char *)npz->at[column].data + (size_t)index * c->sample_bytes, to, err);
}

const struct zt_format zt_format_npz = {
    .type = { .name = "npz" },
    .open = npz_open,
    .read = npz_sample,
    .picture = npz_picture,
    .stored = npz_stored,
    .keep = npz_keep,
    .close = npz_close,
};
