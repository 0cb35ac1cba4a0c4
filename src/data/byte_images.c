#include "data/byte_images.h"

#include "base/arena.h"
#include "base/mapped.h"
#include "base/text.h"
#include "base/vec.h"
#include "data/column.h"
#include "data/images.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHANNELS = 3 };

struct part {
    struct zt_byte_part at;
    int64_t first; /* of the source */
};

struct byte_images {
    const char *format;
    ZT_VEC(struct part) parts;
    struct zt_shape shape;                 /* of an image */
    void *table[ZT_COLUMNS];               /* byte to element of the column's type, for an image by channel */
    float value[MOST_CHANNELS][ZT_LEVELS]; /* a pixel, normalised */
};

void zt_byte_images_init(struct zt_source *source, const char *format, int channels, int height, int width) {
    struct byte_images *b = source->state = zt_calloc(1, sizeof *b);
    b->format = format;
    b->shape = (struct zt_shape){ 3, { channels, height, width } };
}

bool zt_byte_images_add(struct zt_source *source, const struct zt_byte_part *part, struct zt_err *err) {
    struct byte_images *b = source->state;
    zt_vec_push(&b->parts, ((struct part){ *part, source->samples }));
    zt_mapped_checked_by_reader(part->map.mapped);
    zt_mapped_checked_by_reader(part->label_map.mapped);
    return !__builtin_add_overflow(source->samples, part->samples, &source->samples) ||
           zt_fail(err, ZT_EXIT_DATA, "%s: too many samples", part->path);
}

/* ---- records ---- */

static bool add_file(struct zt_source *source, const struct zt_byte_records *r, char *path, struct zt_err *err) {
    const size_t pixels = (size_t)r->channels * (size_t)r->height * (size_t)r->width,
                 record = (size_t)r->labels + pixels;
    struct zt_byte_part part = { .path = path, .image_stride = record, .label_stride = record };
    if (!zt_file_map(&part.map, path, ZT_EXIT_DATA, err)) {
        free(path);
        return false;
    }
    part.image = part.map.data + r->labels;
    part.label = part.map.data + r->label_at;
    part.samples = (int64_t)(part.map.size / record);
    if (!zt_byte_images_add(source, &part, err))
        return false;
    return (part.map.size > 0 && part.map.size % record == 0) ||
           zt_fail(err, ZT_EXIT_DATA, "%s: holds %zu bytes, wants a multiple of %zu (%d label%s, %zu pixels a record)",
                   path, part.map.size, record, r->labels, r->labels > 1 ? "s" : "", pixels);
}

static bool add_folder(struct zt_source *source, const struct zt_byte_records *r, const char *folder,
                       struct zt_err *err) {
    struct dirent **entries;
    bool ok = true, some = false;
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (zt_glob(r->names, name)) {
            some = true;
            ok = ok && add_file(source, r, zt_path_join(folder, name), err);
        }
        free(entries[i]);
    }
    free(entries);
    return some ? ok : zt_fail(err, ZT_EXIT_DATA, "%s: has no file %s", folder, r->names);
}

bool zt_byte_images_add_records(struct zt_source *source, const struct zt_byte_records *r, const char *path,
                                struct zt_err *err) {
    zt_byte_images_init(source, source->format->type.name, r->channels, r->height, r->width);
    return zt_file_is_folder(path) ? add_folder(source, r, path, err) : add_file(source, r, zt_strdup(path), err);
}

/* ---- columns ---- */

/* (pixel/255 - mean)/std in float, like torchvision's ToTensor and Normalize. */
static bool fill_values(struct byte_images *b, const struct zt_data_config *data, struct zt_err *err) {
    float mean[MOST_CHANNELS], std[MOST_CHANNELS];
    const int channels = (int)b->shape.dim[0];
    if (!zt_images_normal(data, channels, mean, std, err))
        return false;
    for (int c = 0; c < channels; c++)
        for (int level = 0; level < ZT_LEVELS; level++)
            b->value[c][level] = ((float)level / 255.0f - mean[c]) / std[c];
    return true;
}

/* Checks every label of every file, so that a wrong one fails before the first step. Errors number rows by file. */
static bool check_labels(const struct byte_images *b, const struct zt_want *want, struct zt_err *err) {
    for (int p = 0; want->below > 0 && p < b->parts.count; p++) {
        const struct zt_byte_part *part = &b->parts.at[p].at;
        for (int64_t row = 0; row < part->samples; row++) {
            int64_t label = part->label[(size_t)row * part->label_stride];
            if (label >= want->below && label != want->except)
                return zt_fail(err, ZT_EXIT_DATA,
                               "%s: column \"%s\", row %lld: value %lld is out of range, wants 0..%lld",
                               part->label_path ? part->label_path : part->path, want->name, (long long)row,
                               (long long)label, (long long)want->below - 1);
        }
    }
    return true;
}

static void fill_table(const struct byte_images *b, bool image, enum zt_dtype dtype, void *table) {
    for (int level = 0; level < ZT_LEVELS; level++)
        if (image)
            for (int c = 0; c < b->shape.dim[0]; c++)
                zt_store_double(dtype, table, c * ZT_LEVELS + level, (double)b->value[c][level]);
        else
            zt_store_int(dtype, table, level, level);
}

static bool accept_column(struct zt_source *source, int i, const struct zt_want *want, const char *path,
                          struct zt_err *err) {
    const struct byte_images *b = source->state;
    const struct zt_shape label = { 0, { 0 } };
    if (want->image)
        return zt_column_accept(&source->column[i], want, ZT_FLOAT, &b->shape, path, err);
    if (strcmp(want->name, "target") != 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: no column named \"%s\" (%s has one image and: target)", path, want->name,
                       b->format);
    return zt_column_accept(&source->column[i], want, ZT_UINT8, &label, path, err) && check_labels(b, want, err);
}

bool zt_byte_images_want(struct zt_source *source, const struct zt_config *config, const char *path,
                         const struct zt_want *wants, int want_count, struct zt_err *err) {
    struct byte_images *b = source->state;
    bool ok = fill_values(b, &config->data, err);
    for (int i = 0; i < want_count && ok; i++) {
        ok = accept_column(source, i, &wants[i], path, err);
        if (!ok)
            break;
        enum zt_dtype dtype = source->column[i].dtype;
        b->table[i] = zt_calloc((wants[i].image ? (size_t)b->shape.dim[0] : 1) * ZT_LEVELS, zt_dtype_bytes(dtype));
        fill_table(b, wants[i].image, dtype, b->table[i]);
    }
    return zt_byte_images_intact(source, err) && ok;
}

/* ---- members of the format ---- */

void zt_byte_images_close(struct zt_source *source) {
    struct byte_images *b = source->state;
    for (int i = 0; i < b->parts.count; i++) {
        struct zt_byte_part *part = &b->parts.at[i].at;
        zt_file_unmap(&part->map);
        if (part->label_path)
            zt_file_unmap(&part->label_map);
        free(part->path);
        free(part->label_path);
    }
    for (int i = 0; i < ZT_COLUMNS; i++)
        free(b->table[i]);
    zt_vec_finish(&b->parts);
    free(b);
}

bool zt_byte_images_intact(const struct zt_source *source, struct zt_err *err) {
    const struct byte_images *b = source->state;
    for (int i = 0; i < b->parts.count; i++)
        if (!zt_mapped_intact(b->parts.at[i].at.map.mapped, err) ||
            !zt_mapped_intact(b->parts.at[i].at.label_map.mapped, err))
            return false;
    return true;
}

struct zt_stored zt_byte_images_stored(const struct zt_source *source, int column) {
    const struct byte_images *b = source->state;
    const bool image = source->is_image[column];
    return (struct zt_stored){ image ? (size_t)zt_shape_count(&b->shape) : 1, b->table[column],
                               image ? (int)b->shape.dim[0] : 1 };
}

/* The bytes that a sample of the column is decoded from. */
static const unsigned char *stored_at(const struct zt_source *source, bool image, int64_t index) {
    const struct byte_images *b = source->state;
    const struct part *part = b->parts.at;
    while (index >= part->first + part->at.samples)
        part++;
    const size_t row = (size_t)(index - part->first);
    return image ? part->at.image + row * part->at.image_stride : part->at.label + row * part->at.label_stride;
}

void zt_byte_images_keep(const struct zt_source *source, int column, int64_t first, int64_t count, void *to) {
    size_t bytes = zt_byte_images_stored(source, column).bytes;
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)to + (size_t)i * bytes, stored_at(source, source->is_image[column], first + i), bytes);
}

bool zt_byte_images_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)err; /* sizes and labels were checked when the files were opened */
    const struct zt_stored stored = zt_byte_images_stored(source, column);
    zt_column_decode(&source->column[column], &stored, stored_at(source, source->is_image[column], index), to);
    return true;
}

bool zt_byte_images_picture(const struct zt_source *source, int column, int64_t index, struct zt_picture *to,
                            struct zt_err *err) {
    (void)column;
    const struct byte_images *b = source->state;
    const unsigned char *from = stored_at(source, true, index);
    if (!zt_picture_init(to, (int)b->shape.dim[0], (int)b->shape.dim[1], (int)b->shape.dim[2], err))
        return false;
    for (size_t i = 0; i < (size_t)zt_shape_count(&b->shape); i++)
        to->at[i] = (float)from[i] / 255.0f;
    return true;
}
