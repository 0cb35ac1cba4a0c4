/* Data format cifar10: CIFAR-10's binary version, records of 1 label byte and 3,072 pixels (planes R, G, B of 32 x 32,
 * row major). `path` is a folder, of which every data_batch_*.bin is read in the order of the names, or one such file.
 */
#include "data/column.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/text.h"
#include "base/vec.h"
#include "config/rows.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHANNELS = 3, PLANE = 32 * 32, PIXELS = CHANNELS * PLANE, RECORD = 1 + PIXELS };

struct part {
    char *path;
    struct zt_file_map map;
    int64_t first, samples; /* of the source */
};

struct cifar {
    ZT_VEC(struct part) parts;
    bool image[ZT_COLUMNS];           /* else the label */
    void *table[ZT_COLUMNS];          /* byte to element of the column's type, for an image by channel */
    float value[CHANNELS][ZT_LEVELS]; /* a pixel, normalised */
};

static const struct zt_shape image_shape = { 3, { CHANNELS, 32, 32 } };
static const struct zt_shape label_shape = { 0, { 0 } };

static bool map_part(struct cifar *cifar, char *path, struct zt_source *source, struct zt_err *err) {
    struct part part = { .path = path, .first = source->samples };
    if (!zt_file_map(&part.map, path, ZT_EXIT_DATA, err)) {
        free(path);
        return false;
    }
    zt_mapped_checked_by_reader(part.map.mapped);
    zt_vec_push(&cifar->parts, part);
    if (part.map.size == 0 || part.map.size % RECORD != 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: holds %zu bytes, wants a multiple of %d (1 label, %d pixels a record)",
                       path, part.map.size, RECORD, PIXELS);
    cifar->parts.at[cifar->parts.count - 1].samples = (int64_t)(part.map.size / RECORD);
    source->samples += (int64_t)(part.map.size / RECORD);
    return true;
}

static int is_batch(const struct dirent *entry) {
    return zt_glob("data_batch_*.bin", entry->d_name);
}

static bool map_folder(struct cifar *cifar, const char *folder, struct zt_source *source, struct zt_err *err) {
    struct dirent **entries;
    bool ok = true;
    int count = scandir(folder, &entries, is_batch, alphasort);
    if (count < 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        ok = ok && map_part(cifar, zt_path_join(folder, entries[i]->d_name), source, err);
        free(entries[i]);
    }
    free(entries);
    if (count == 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: has no file data_batch_*.bin", folder);
    return ok;
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool check_numbers(const struct zt_numbers *numbers, const char *key, struct zt_err *err) {
    if (numbers->count == 0 || numbers->count == CHANNELS)
        return true;
    return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.normalize.%s: has %d values, the images have %d channels", key,
                   numbers->count, CHANNELS);
}

/* (pixel/255 - mean)/std in float, like torchvision's ToTensor and Normalize. */
static bool fill_values(struct cifar *cifar, const struct zt_data_config *data, struct zt_err *err) {
    if (!check_numbers(&data->mean, "mean", err) || !check_numbers(&data->std, "std", err))
        return false;
    for (int c = 0; c < CHANNELS; c++) {
        float mean = data->mean.count ? (float)data->mean.at[c] : 0, std = data->std.count ? (float)data->std.at[c] : 1;
        if (!(std > 0))
            return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.normalize.std: value %g, wants more than 0", (double)std);
        for (int level = 0; level < ZT_LEVELS; level++)
            cifar->value[c][level] = ((float)level / 255.0f - mean) / std;
    }
    return true;
}

static const unsigned char *record_at(const struct cifar *cifar, int64_t index) {
    const struct part *part = cifar->parts.at;
    while (index >= part->first + part->samples)
        part++;
    return part->map.data + (index - part->first) * RECORD;
}

/* Checks every label of every file, so that a wrong one fails before the first step. Errors number rows by file. */
static bool check_labels(const struct cifar *cifar, const struct zt_want *want, struct zt_err *err) {
    for (int p = 0; want->below > 0 && p < cifar->parts.count; p++) {
        const struct part *part = &cifar->parts.at[p];
        for (int64_t row = 0; row < part->samples; row++) {
            int64_t label = part->map.data[row * RECORD];
            if (label >= want->below && label != want->except)
                return zt_fail(err, ZT_EXIT_DATA,
                               "%s: column \"%s\", row %lld: value %lld is out of range, wants 0..%lld", part->path,
                               want->name, (long long)row, (long long)label, (long long)want->below - 1);
        }
    }
    return true;
}

static void fill_table(const struct cifar *cifar, bool image, enum zt_dtype dtype, void *table) {
    for (int level = 0; level < ZT_LEVELS; level++)
        if (image)
            for (int c = 0; c < CHANNELS; c++)
                zt_store_double(dtype, table, c * ZT_LEVELS + level, (double)cifar->value[c][level]);
        else
            zt_store_int(dtype, table, level, level);
}

static bool accept_column(struct zt_source *source, int i, const struct zt_want *want, const char *path,
                          struct zt_err *err) {
    if (want->image)
        return zt_column_accept(&source->column[i], want, ZT_FLOAT, &image_shape, path, err);
    if (strcmp(want->name, "target") != 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: no column named \"%s\" (cifar10 has one image and: target)", path,
                       want->name);
    return zt_column_accept(&source->column[i], want, ZT_UINT8, &label_shape, path, err) &&
           check_labels(source->state, want, err);
}

static bool accept_want(struct zt_source *source, int i, const struct zt_want *want, const char *path,
                        struct zt_err *err) {
    struct cifar *cifar = source->state;
    cifar->image[i] = want->image;
    if (!accept_column(source, i, want, path, err))
        return false;
    enum zt_dtype dtype = source->column[i].dtype;
    cifar->table[i] = zt_calloc((want->image ? CHANNELS : 1) * ZT_LEVELS, zt_dtype_bytes(dtype));
    fill_table(cifar, want->image, dtype, cifar->table[i]);
    return true;
}

static void cifar_close(struct zt_source *source) {
    struct cifar *cifar = source->state;
    for (int i = 0; i < cifar->parts.count; i++) {
        zt_file_unmap(&cifar->parts.at[i].map);
        free(cifar->parts.at[i].path);
    }
    for (int i = 0; i < ZT_COLUMNS; i++)
        free(cifar->table[i]);
    zt_vec_finish(&cifar->parts);
    free(cifar);
}

static bool cifar_intact(const struct zt_source *source, struct zt_err *err) {
    const struct cifar *cifar = source->state;
    for (int i = 0; i < cifar->parts.count; i++)
        if (!zt_mapped_intact(cifar->parts.at[i].map.mapped, err))
            return false;
    return true;
}

static bool cifar_open(struct zt_source *source, const struct zt_config *config, const char *path,
                       const struct zt_want *wants, int want_count, struct zt_err *err) {
    struct cifar *cifar = source->state = zt_calloc(1, sizeof *cifar);
    bool ok = fill_values(cifar, &config->data, err) &&
              (is_folder(path) ? map_folder(cifar, path, source, err) : map_part(cifar, zt_strdup(path), source, err));
    for (int i = 0; i < want_count && ok; i++)
        ok = accept_want(source, i, &wants[i], path, err);
    ok = cifar_intact(source, err) && ok;
    if (!ok)
        cifar_close(source);
    return ok;
}

static struct zt_stored cifar_stored(const struct zt_source *source, int column) {
    const struct cifar *cifar = source->state;
    bool image = cifar->image[column];
    return (struct zt_stored){ image ? PIXELS : 1, cifar->table[column], image ? CHANNELS : 1 };
}

/* The bytes of a record that the column is decoded from. */
static const unsigned char *stored_at(const struct zt_source *source, int column, int64_t index) {
    const struct cifar *cifar = source->state;
    return record_at(cifar, index) + (cifar->image[column] ? 1 : 0);
}

static void cifar_keep(const struct zt_source *source, int column, int64_t first, int64_t count, void *to) {
    size_t bytes = cifar_stored(source, column).bytes;
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)to + (size_t)i * bytes, stored_at(source, column, first + i), bytes);
}

static bool cifar_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)err; /* sizes and labels were checked when the files were opened */
    const struct zt_stored stored = cifar_stored(source, column);
    zt_column_decode(&source->column[column], &stored, stored_at(source, column, index), to);
    return true;
}

/* Every format accepts these keys; those without channels refuse them when they open the data. */
static const struct zt_key_row keys[] = {
    { .key = "ztrain.data.normalize", OBJECT, .shared = true },
    { .key = "ztrain.data.normalize.mean", NUMBERS, ANY_NUMBER, .shared = true, AT(data.mean) },
    { .key = "ztrain.data.normalize.std", NUMBERS, POSITIVE, .shared = true, AT(data.std) },
    { 0 },
};

const struct zt_format zt_format_cifar10 = {
    .type = { .name = "cifar10", .keys = keys, .eval_file = "test_batch.bin" },
    .open = cifar_open,
    .read = cifar_read,
    .intact = cifar_intact,
    .stored = cifar_stored,
    .keep = cifar_keep,
    .close = cifar_close,
};
