#include "data/column.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

const struct zt_format *const zt_formats[] = { &zt_format_npz, &zt_format_cifar10, &zt_format_synthetic, NULL };

const struct zt_format *zt_format_find(const char *name) {
    for (int i = 0; zt_formats[i]; i++)
        if (strcmp(zt_formats[i]->name, name) == 0)
            return zt_formats[i];
    return NULL;
}

static bool unknown_format(const char *name, struct zt_err *err) {
    struct zt_text list = { 0 };
    for (int i = 0; zt_formats[i]; i++)
        zt_text_add(&list, "%s%s", i ? ", " : "", zt_formats[i]->name);
    zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.format: \"%s\", allowed: %s", name, list.at);
    zt_text_finish(&list);
    return false;
}

/* The path evaluation reads, NULL where there is none. Free with free(). */
static char *eval_path(const struct zt_config *config, const struct zt_format *format) {
    if (config->data.eval_path)
        return zt_strdup(config->data.eval_path);
    if (!format->eval_file || !config->data.path)
        return NULL;
    char *path = zt_path_join(config->data.path, format->eval_file);
    if (zt_file_exists(path))
        return path;
    free(path);
    return NULL;
}

struct zt_source *zt_source_open(const struct zt_config *config, bool eval, const struct zt_want *wants, int want_count,
                                 struct zt_err *err) {
    const char *name = config->data.format;
    const struct zt_format *format = name ? zt_format_find(name) : NULL;
    if (!format) {
        if (name)
            unknown_format(name, err);
        else if (!eval)
            zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data: missing, wants a format and a path");
        return NULL;
    }
    if (want_count > ZT_COLUMNS) {
        zt_fail(err, ZT_EXIT_DATA, "the model reads %d columns, at most %d are supported", want_count, ZT_COLUMNS);
        return NULL;
    }
    if (format->needs_path && !eval && !config->data.path) {
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.path: missing, format \"%s\" wants one", format->name);
        return NULL;
    }
    char *path = eval ? eval_path(config, format) : zt_strdup(config->data.path ? config->data.path : "");
    if (!path)
        return NULL;
    struct zt_source *source = zt_calloc(1, sizeof *source);
    source->format = format;
    source->column_count = want_count;
    if (!format->open(source, config, path, wants, want_count, err)) {
        free(source);
        source = NULL;
    }
    free(path);
    return source;
}

bool zt_source_intact(const struct zt_source *source, struct zt_err *err) {
    return !source->format->intact || source->format->intact(source, err);
}

int64_t zt_source_stored_bytes(const struct zt_source *source) {
    int64_t total = 0, bytes;
    for (int c = 0; source->format->stored && c < source->column_count; c++)
        if (__builtin_mul_overflow((int64_t)source->format->stored(source, c).bytes, source->samples, &bytes) ||
            __builtin_add_overflow(total, bytes, &total))
            return -1;
    return total;
}

void zt_source_close(struct zt_source *source) {
    if (!source)
        return;
    source->format->close(source);
    free(source);
}
