/* From a picture to a sample: resize, crop, augmentation and normalisation, in the order of torchvision's reference
 * recipes. */
#ifndef ZT_DATA_IMAGES_H
#define ZT_DATA_IMAGES_H

#include "data/augment.h"

/* Conversion of a format's pictures to the image columns of a source. Owned by the source. */
struct zt_images;

/* Prepares the columns that are images: [C, H, W] of floats. `resize`: the shorter side of a picture before cropping;
 * 0: the least that covers H x W; -1: pictures keep their size. Without augmentation. False with an error where
 * ztrain.data.normalize does not fit the channels. */
bool zt_images_open(struct zt_source *source, const struct zt_config *config, int resize, struct zt_err *err);
/* Augments the samples of the source; opens its images (resize -1) where they are not. */
bool zt_images_augment(struct zt_source *source, const struct zt_config *config, struct zt_err *err);
void zt_images_destroy(struct zt_images *images); /* NULL is harmless */

/* Makes a sample of an image column. Errors are those of the format's picture(), and pictures smaller than the crop. */
bool zt_images_read(const struct zt_source *source, int column, struct zt_sample sample, void *to, struct zt_err *err);

/* The numbers of ztrain.data.normalize for `channels` channels, (x - mean) / std; 0 and 1 where not given. */
bool zt_images_normal(const struct zt_data_config *data, int channels, float *mean, float *std, struct zt_err *err);

/* The most channels of an image. */
enum { ZT_CHANNELS = 64 };

#endif
