/* Data format mnist: the IDX files of MNIST, Fashion-MNIST and EMNIST (http://yann.lecun.com/exdb/mnist): a big-endian
 * header of magic number and dimensions, then bytes. `path` is a folder with train-images-idx3-ubyte and
 * train-labels-idx1-ubyte, or the file of images, beside which the labels lie. */
#include "data/byte_images.h"

#include "base/arena.h"
#include "base/text.h"
#include "data/picture/picture.h"

#include <stdlib.h>
#include <string.h>

enum { IMAGE_HEADER = 16, LABEL_HEADER = 8, IMAGE_MAGIC = 0x803, LABEL_MAGIC = 0x801 }; /* ubyte, 3 and 1 dimensions */

static uint32_t big_endian(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool check_header(const struct zt_file_map *map, const char *path, size_t header, uint32_t magic,
                         struct zt_err *err) {
    if (map->size >= 2 && map->data[0] == 0x1f && map->data[1] == 0x8b) {
        zt_fail(err, ZT_EXIT_DATA, "%s: is compressed", path);
        return zt_hint(err, "gunzip it");
    }
    if (map->size < header)
        return zt_fail(err, ZT_EXIT_DATA, "%s: holds %zu bytes, fewer than the header of an IDX file", path, map->size);
    if (big_endian(map->data) != magic)
        return zt_fail(err, ZT_EXIT_DATA, "%s: begins with 0x%08x, wants 0x%08x (IDX, unsigned bytes, %d dimension%s)",
                       path, (unsigned)big_endian(map->data), (unsigned)magic, (int)(magic & 0xff),
                       magic == LABEL_MAGIC ? "" : "s");
    return true;
}

/* The header against the size of the file, in 64 bits. */
static bool check_images(const struct zt_file_map *map, const char *path, struct zt_err *err) {
    if (!check_header(map, path, IMAGE_HEADER, IMAGE_MAGIC, err))
        return false;
    const uint64_t count = big_endian(map->data + 4), height = big_endian(map->data + 8),
                   width = big_endian(map->data + 12), have = map->size - IMAGE_HEADER;
    if (height < 1 || height > ZT_PICTURE_SIDE || width < 1 || width > ZT_PICTURE_SIDE)
        return zt_fail(err, ZT_EXIT_DATA, "%s: has images of %llu x %llu pixels", path, (unsigned long long)width,
                       (unsigned long long)height);
    return count * (height * width) == have || /* below 2^64 */
           zt_fail(err, ZT_EXIT_DATA, "%s: holds %llu bytes of pixels, its header wants %llu images of %llu x %llu",
                   path, (unsigned long long)have, (unsigned long long)count, (unsigned long long)width,
                   (unsigned long long)height);
}

static bool check_labels(const struct zt_file_map *map, const char *path, int64_t images, struct zt_err *err) {
    if (!check_header(map, path, LABEL_HEADER, LABEL_MAGIC, err))
        return false;
    const int64_t count = big_endian(map->data + 4);
    if (count != (int64_t)map->size - LABEL_HEADER)
        return zt_fail(err, ZT_EXIT_DATA, "%s: holds %lld labels, its header wants %lld", path,
                       (long long)map->size - LABEL_HEADER, (long long)count);
    return count == images || zt_fail(err, ZT_EXIT_DATA, "%s: holds %lld labels for %lld images", path,
                                      (long long)count, (long long)images);
}

/* The file of labels beside a file of images: "images" and "idx3" of its name become "labels" and "idx1". NULL where
 * the name has no "images". */
static char *label_path(const char *path) {
    char *to = zt_strdup(path), *name = to + (zt_path_name(path) - path), *images = strstr(name, "images");
    if (!images) {
        free(to);
        return NULL;
    }
    memcpy(images, "labels", 6);
    char *dimensions = strstr(images, "idx3");
    if (dimensions)
        dimensions[3] = '1';
    return to;
}

/* The file of images in a folder, by either of its names. The caller frees it. */
static char *image_path(const char *path) {
    if (!zt_file_is_folder(path))
        return zt_strdup(path);
    char *dotted = zt_path_join(path, "train-images.idx3-ubyte");
    if (zt_file_exists(dotted))
        return dotted;
    free(dotted);
    return zt_path_join(path, "train-images-idx3-ubyte");
}

static bool map_file(struct zt_file_map *map, const char *path, struct zt_err *err) {
    if (zt_file_map(map, path, ZT_EXIT_DATA, err))
        return true;
    struct zt_text packed = { 0 };
    zt_text_add(&packed, "%s.gz", path);
    if (!zt_file_exists(path) && zt_file_exists(packed.at))
        zt_hint(err, "unpack the file beside it: gunzip %s", packed.at);
    zt_text_finish(&packed);
    return false;
}

static bool map_labels(struct zt_byte_part *part, struct zt_err *err) {
    char *path = label_path(part->path);
    if (!path) {
        zt_fail(err, ZT_EXIT_DATA, "%s: no \"images\" in the file's name, by which its labels are found", part->path);
        return zt_hint(err, "name the files like train-images-idx3-ubyte and train-labels-idx1-ubyte");
    }
    if (!map_file(&part->label_map, path, err)) {
        free(path);
        return false;
    }
    part->label_path = path;
    return true;
}

static bool open_files(struct zt_source *source, const char *path, struct zt_err *err) {
    struct zt_byte_part part = { .path = image_path(path), .label_stride = 1 };
    if (!map_file(&part.map, part.path, err)) {
        free(part.path);
        return false;
    }
    bool ok = check_images(&part.map, part.path, err);
    const uint32_t height = ok ? big_endian(part.map.data + 8) : 1, width = ok ? big_endian(part.map.data + 12) : 1;
    part.samples = ok ? big_endian(part.map.data + 4) : 0;
    part.image = part.map.data + IMAGE_HEADER;
    part.image_stride = (size_t)height * width;
    zt_byte_images_init(source, "mnist", 1, (int)height, (int)width);
    ok = ok && map_labels(&part, err) && check_labels(&part.label_map, part.label_path, part.samples, err);
    part.label = part.label_path ? part.label_map.data + LABEL_HEADER : NULL;
    ok = zt_byte_images_add(source, &part, err) && ok;
    return ok && (part.samples > 0 || zt_fail(err, ZT_EXIT_DATA, "%s: holds no samples", part.path));
}

static bool mnist_open(struct zt_source *source, const struct zt_config *config, const char *path,
                       const struct zt_want *wants, int want_count, struct zt_err *err) {
    if (open_files(source, path, err) && zt_byte_images_want(source, config, path, wants, want_count, err))
        return true;
    if (source->state)
        zt_byte_images_close(source);
    return false;
}

const struct zt_format zt_format_mnist = {
    .type = { .name = "mnist", .eval_file = "t10k-images-idx3-ubyte" },
    .open = mnist_open,
    ZT_BYTE_IMAGES,
};
