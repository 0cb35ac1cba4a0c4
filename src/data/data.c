#include "data/column.h"
#include "data/images.h"

#include "base/arena.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* The formats, a line each: ROW(name) stands for zt_format_NAME. Messages and config.resolved.json keep the order. */
#define FORMATS(ROW)                                                                                                   \
    ROW(npz)                                                                                                           \
    ROW(synthetic)                                                                                                     \
    ROW(cifar10)                                                                                                       \
    ROW(cifar100)                                                                                                      \
    ROW(imagefolder)                                                                                                   \
    ROW(mnist)                                                                                                         \
    ROW(npy)                                                                                                           \
    ROW(csv)                                                                                                           \
    ROW(tokens)                                                                                                        \
    /* the next one above this line */

#define DECLARE(name) extern const struct zt_format zt_format_##name;
FORMATS(DECLARE)

#define ROW(name) &zt_format_##name,
static const struct zt_format *const formats[] = { FORMATS(ROW) NULL };

#define TYPE_OF(name) &zt_format_##name.type,
const struct zt_key_owner *const zt_format_types[] = { FORMATS(TYPE_OF) NULL };

static const struct zt_format *find_format(const char *name) {
    for (int i = 0; formats[i]; i++)
        if (strcmp(formats[i]->type.name, name) == 0)
            return formats[i];
    return NULL;
}

/* Reports a format that does not exist, or NULL: none is given. */
static bool unknown_format(const char *name, struct zt_err *err) {
    struct zt_text list = { 0 };
    for (int i = 0; formats[i]; i++)
        zt_text_add(&list, "%s%s", i ? ", " : "", formats[i]->type.name);
    if (name) {
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.format: \"%s\", allowed: %s", name, list.at);
    } else {
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data: missing, wants a format and a path");
        zt_hint(err,
                "use --data FORMAT:PATH, or add a second --config FILE with {\"ztrain\": {\"data\": {\"format\": "
                "FORMAT, \"path\": PATH}}}; the formats are %s",
                list.at);
    }
    zt_text_finish(&list);
    return false;
}

/* Augments the pictures of training data where the config asks for it. */
static bool add_augmentation(struct zt_source *source, const struct zt_config *config, bool eval, struct zt_err *err) {
    bool some = false;
    if (!zt_augments(&config->data.augment))
        return true;
    for (int i = 0; i < source->column_count; i++)
        some = some || source->is_image[i];
    if (!source->format->picture || !some)
        return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.augment: format \"%s\"%s", source->format->type.name,
                       source->format->picture ? " has images, but the model has no image input [N, C, H, W]"
                                               : " has no images to augment");
    if (eval)
        return true;
    return zt_images_augment(source, config, err);
}

struct zt_source *zt_source_open(const struct zt_config *config, bool eval, const struct zt_want *wants, int want_count,
                                 struct zt_err *err) {
    const char *name = config->data.format;
    const struct zt_format *format = name ? find_format(name) : NULL;
    if (!format) {
        if (name || !eval)
            unknown_format(name, err);
        return NULL;
    }
    if (want_count > ZT_COLUMNS) {
        zt_fail(err, ZT_EXIT_DATA, "the model reads %d columns, at most %d are supported", want_count, ZT_COLUMNS);
        return NULL;
    }
    if (!format->type.computed && !eval && !config->data.path) {
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.path: missing, format \"%s\" wants one", format->type.name);
        return NULL;
    }
    const char *path = eval ? config->data.eval_path : config->data.path ? config->data.path : "";
    if (!path)
        return NULL;
    struct zt_source *source = zt_calloc(1, sizeof *source);
    source->format = format;
    source->column_count = want_count;
    for (int i = 0; i < want_count; i++)
        source->is_image[i] = wants[i].image;
    if (!format->open(source, config, path, wants, want_count, err)) {
        free(source);
        return NULL;
    }
    if (!add_augmentation(source, config, eval, err)) {
        zt_source_close(source);
        return NULL;
    }
    return source;
}

bool zt_source_read(const struct zt_source *source, int column, struct zt_sample sample, void *to, struct zt_err *err) {
    if (source->images && source->is_image[column])
        return zt_images_read(source, column, sample, to, err);
    return source->format->read(source, column, sample.index, to, err);
}

bool zt_source_is_stored(const struct zt_source *source) {
    return source->format->stored && !source->images;
}

bool zt_source_intact(const struct zt_source *source, struct zt_err *err) {
    return !source->format->intact || source->format->intact(source, err);
}

int64_t zt_source_stored_bytes(const struct zt_source *source) {
    int64_t total = 0, bytes;
    for (int c = 0; zt_source_is_stored(source) && c < source->column_count; c++)
        if (__builtin_mul_overflow((int64_t)source->format->stored(source, c).bytes, source->samples, &bytes) ||
            __builtin_add_overflow(total, bytes, &total))
            return -1;
    return total;
}

void zt_source_close(struct zt_source *source) {
    if (!source)
        return;
    source->format->close(source);
    zt_images_destroy(source->images);
    free(source);
}
