/* Pictures on their way from a file to a sample: levels as they are decoded, then planes of floats, and the geometry
 * that torchvision's transforms define. Level 0 of a file is 0, level 255 is 1. */
#ifndef ZT_DATA_PICTURE_H
#define ZT_DATA_PICTURE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest side of a picture, and the most pixels of one plane: a hostile file claims no more. */
enum { ZT_PICTURE_SIDE = 1 << 16, ZT_PICTURE_PIXELS = 1 << 27 };

/* height x width pixels, row major. Finish with zt_picture_finish(), which is harmless on a zeroed struct. */
struct zt_picture {
    int channels, height, width;
    float *at;             /* `channels` planes; NULL where the picture has levels */
    unsigned char *levels; /* 0..255, the channels of a pixel side by side; NULL where it has floats */
};

/* A part of a picture. It may reach beyond the edges, where pixels are 0. */
struct zt_box {
    int top, left, height, width;
};

/* Makes a picture of floats, or of levels, whose pixels are not set. False with an error where memory is missing (exit
 * code 1). The sides of a picture of levels come from a file: beyond the bounds above they are an error (exit code 4).
 */
bool zt_picture_init(struct zt_picture *picture, int channels, int height, int width, struct zt_err *err);
bool zt_picture_init_levels(struct zt_picture *picture, int channels, uint32_t height, uint32_t width,
                            struct zt_err *err);
void zt_picture_finish(struct zt_picture *picture);
size_t zt_picture_plane(const struct zt_picture *picture); /* pixels of a plane */

/* Replaces a picture by a part of it. */
bool zt_picture_crop(struct zt_picture *picture, struct zt_box box, struct zt_err *err);
/* Replaces a picture by a part of one of another size (NULL: by all of it), of floats. The part lies within. The
 * triangle filter, widened by the factor of reduction, as Pillow's BILINEAR and torchvision's Resize(antialias=True)
 * have it. */
bool zt_picture_resize(struct zt_picture *picture, int height, int width, const struct zt_box *part,
                       struct zt_err *err);
/* Gives a picture of levels 1 or 3 channels: a grey is repeated, and 3 channels become their luma, as Pillow's
 * convert("RGB") and convert("L") have it. */
bool zt_picture_set_channels(struct zt_picture *picture, int channels, struct zt_err *err);
/* Mirrors a picture of floats: left and right, or top and bottom. */
void zt_picture_flip_columns(struct zt_picture *picture);
void zt_picture_flip_rows(struct zt_picture *picture);

/* The box of height x width in the middle; torchvision's CenterCrop. */
struct zt_box zt_picture_center(const struct zt_picture *picture, int height, int width);

#endif
