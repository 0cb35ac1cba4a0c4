/* Images and labels as bytes in mapped files: what cifar10, cifar100 and mnist share. An image is planes of bytes, a
 * label a byte; each format says where they are. */
#ifndef ZT_DATA_BYTE_IMAGES_H
#define ZT_DATA_BYTE_IMAGES_H

#include "base/file.h"
#include "data/data.h"

/* The files of consecutive samples. Image i is at image + i * image_stride, its label likewise. */
struct zt_byte_part {
    char *path, *label_path; /* label_path NULL: the same file */
    struct zt_file_map map, label_map;
    const unsigned char *image, *label;
    size_t image_stride, label_stride;
    int64_t samples;
};

/* Records of a label and an image in one file, and the names of the files in a folder. */
struct zt_byte_records {
    int labels, label_at; /* bytes in front of the image; that of the label */
    int channels, height, width;
    const char *names; /* glob */
};

/* Makes the empty state of a source of images of this shape. `format` is for messages. */
void zt_byte_images_init(struct zt_source *source, const char *format, int channels, int height, int width);
/* Adds a part, which the state then owns, whatever the result. Sets part->map before parts are added; errors name the
 * file. */
bool zt_byte_images_add(struct zt_source *source, const struct zt_byte_part *part, struct zt_err *err);
/* Creates the state and adds the records of the file `path`, or of the files of a folder in the order of their names.
 */
bool zt_byte_images_add_records(struct zt_source *source, const struct zt_byte_records *records, const char *path,
                                struct zt_err *err);
/* Sets the columns once all parts are added, and checks every label. */
bool zt_byte_images_want(struct zt_source *source, const struct zt_config *config, const char *path,
                         const struct zt_want *wants, int want_count, struct zt_err *err);

/* Members of struct zt_format. */
bool zt_byte_images_read(const struct zt_source *source, int column, int64_t index, void *to, struct zt_err *err);
bool zt_byte_images_picture(const struct zt_source *source, int column, int64_t index, struct zt_picture *to,
                            struct zt_err *err);
bool zt_byte_images_intact(const struct zt_source *source, struct zt_err *err);
struct zt_stored zt_byte_images_stored(const struct zt_source *source, int column);
void zt_byte_images_keep(const struct zt_source *source, int column, int64_t first, int64_t count, void *to);
void zt_byte_images_close(struct zt_source *source);
#define ZT_BYTE_IMAGES                                                                                                 \
    .read = zt_byte_images_read, .picture = zt_byte_images_picture, .intact = zt_byte_images_intact,                   \
    .stored = zt_byte_images_stored, .keep = zt_byte_images_keep, .close = zt_byte_images_close

#endif
