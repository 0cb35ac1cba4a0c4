/* Data format imagefolder: a folder for each class with JPEG and PNG files, as torchvision's ImageFolder reads it.
 * Classes are numbered in the order of their names; the files of a class follow in the order of folder and name.
 * Evaluation data have the numbers of the training data's classes. Files are decoded when they are read. */
#include "data/class_folders.h"
#include "data/column.h"
#include "data/picture/image_file.h"
#include "data/images.h"

#include "base/arena.h"
#include "base/file.h"
#include "config/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILE_BYTES = 1 << 29 };

struct params {
    int resize, size;
};

struct image_folder {
    char *root;
    struct zt_class_folders files;
};

/* ---- columns ---- */

/* [C, H, W] with what the model leaves open: 3 channels, and ztrain.data.size. */
static bool image_shape(const struct zt_want *want, int size, struct zt_shape *shape, const char *path,
                        struct zt_err *err) {
    *shape = (struct zt_shape){ 3, { 3, size, size } };
    for (int d = 0; d < 3 && want->shape.rank == 3; d++)
        if (want->shape.dim[d] > 0)
            shape->dim[d] = want->shape.dim[d];
    if (shape->dim[0] != 1 && shape->dim[0] != 3)
        return zt_fail(err, ZT_EXIT_DATA, "%s: the model wants images of %lld channels, imagefolder has 1 or 3", path,
                       (long long)shape->dim[0]);
    if (shape->dim[1] > 0 && shape->dim[2] > 0)
        return true;
    zt_fail(err, ZT_EXIT_DATA, "%s: the model leaves the size of image \"%s\" open", path, want->name);
    return zt_hint(err, "set ztrain.data.size");
}

static enum zt_dtype label_type(int classes) {
    return classes <= 1 << 8 ? ZT_UINT8 : classes <= 1 << 16 ? ZT_UINT16 : ZT_INT32;
}

static bool accept_want(struct zt_source *source, int i, const struct zt_want *want, const struct params *params,
                        struct zt_err *err) {
    const struct image_folder *f = source->state;
    struct zt_shape shape = { 0, { 0 } };
    if (want->image)
        return image_shape(want, params ? params->size : 0, &shape, f->root, err) &&
               zt_column_accept(&source->column[i], want, ZT_FLOAT, &shape, f->root, err);
    if (strcmp(want->name, "target") != 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: no column named \"%s\" (imagefolder has one image and: target)", f->root,
                       want->name);
    if (want->below > 0 && f->files.classes > want->below)
        return zt_fail(err, ZT_EXIT_DATA, "%s: has %d class folders, the model has %lld classes", f->root,
                       f->files.classes, (long long)want->below);
    return zt_column_accept(&source->column[i], want, label_type(f->files.classes), &shape, f->root, err);
}

static void folder_close(struct zt_source *source) {
    struct image_folder *f = source->state;
    zt_class_folders_finish(&f->files);
    free(f->root);
    free(f);
}

static bool folder_open(struct zt_source *source, const struct zt_config *config, const char *path,
                        const struct zt_want *wants, int want_count, struct zt_err *err) {
    const struct params *params = config->data.params;
    struct image_folder *f = source->state = zt_calloc(1, sizeof *f);
    f->root = zt_strdup(path);
    const bool evaluation = config->data.path && strcmp(path, config->data.path) != 0;
    bool ok = zt_class_folders_list(&f->files, path, evaluation ? config->data.path : path, err);
    source->samples = f->files.entries.count;
    for (int i = 0; ok && i < want_count; i++)
        ok = accept_want(source, i, &wants[i], params, err);
    ok = ok && zt_images_open(source, config, params ? params->resize : 0, err);
    if (!ok)
        folder_close(source);
    return ok;
}

/* ---- reading ---- */

static char *path_of(const struct image_folder *f, int64_t index) {
    return zt_path_join(f->root, f->files.names.at + f->files.entries.at[index].name);
}

static bool read_exactly(int fd, unsigned char *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(fd, to + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* Reads an open file into memory, which the caller frees. */
static unsigned char *read_open(int fd, size_t *size, struct zt_err *err) {
    struct stat before, after;
    if (fstat(fd, &before) != 0 || !S_ISREG(before.st_mode) || before.st_size > MOST_FILE_BYTES) {
        zt_fail(err, ZT_EXIT_DATA, "is not a file of at most %d bytes", MOST_FILE_BYTES);
        return NULL;
    }
    *size = (size_t)before.st_size;
    unsigned char *bytes = malloc(*size + 1);
    if (!bytes) {
        zt_fail(err, ZT_EXIT_RUN, "no memory for a file of %zu bytes", *size);
        return NULL;
    }
    if (read_exactly(fd, bytes, *size) && fstat(fd, &after) == 0 && after.st_size == before.st_size &&
        after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec)
        return bytes;
    zt_fail(err, ZT_EXIT_DATA, "changed while it was read");
    free(bytes);
    return NULL;
}

static bool decode_file(const char *path, struct zt_picture *to, struct zt_err *err) {
    size_t size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s", strerror(errno));
    unsigned char *bytes = read_open(fd, &size, err);
    close(fd);
    bool ok = bytes && zt_image_decode(bytes, size, to, err);
    free(bytes);
    return ok;
}

static bool folder_name_sample(const struct zt_source *source, int64_t index, int first, struct zt_err *err) {
    char *path = path_of(source->state, index);
    zt_err_within(err, first, "%s", path);
    free(path);
    return false;
}

static bool folder_picture(const struct zt_source *source, int column, int64_t index, struct zt_picture *to,
                           struct zt_err *err) {
    const int first = err->count, channels = (int)source->column[column].shape.dim[0];
    char *path = path_of(source->state, index);
    bool ok = decode_file(path, to, err) && zt_picture_set_channels(to, channels, err);
    free(path);
    return ok || folder_name_sample(source, index, first, err);
}

static bool folder_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err) {
    (void)err;
    const struct image_folder *f = source->state;
    zt_store_int(source->column[column].dtype, to, 0, f->files.entries.at[index].label);
    return true;
}

#define OWN(field) PLACE(ZT_IN_FORMAT, struct params, field)
static const struct zt_key_row keys[] = {
    { .key = "ztrain.data.resize", COUNT(0, ZT_PICTURE_SIDE), DEF("0"), OWN(resize) },
    { .key = "ztrain.data.size", COUNT(0, ZT_PICTURE_SIDE), DEF("0"), OWN(size) },
    { 0 },
};

const struct zt_format zt_format_imagefolder = {
    .type = { .name = "imagefolder", .keys = keys, .bytes = sizeof(struct params), .eval_file = "../val" },
    .open = folder_open,
    .read = folder_read,
    .picture = folder_picture,
    .name_sample = folder_name_sample,
    .close = folder_close,
};
