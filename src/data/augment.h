/* Random changes of pictures, by torchvision's definitions for float tensors. Every number is a function of seed,
 * epoch, sample and change alone, so that ranks, threads and a resumed run draw the same. */
#ifndef ZT_DATA_AUGMENT_H
#define ZT_DATA_AUGMENT_H

#include "config/config.h"
#include "data/data.h"
#include "data/picture/picture.h"

/* The source of a sample's random numbers. */
struct zt_draw {
    uint64_t seed;
    struct zt_sample sample;
};

/* Whether the config asks for any augmentation. */
bool zt_augments(const struct zt_augment_config *how);

/* The part of `picture` that becomes the sample: RandomCrop(size, padding), or RandomResizedCrop's box. The picture
 * must be at least as large as the crop; RandomResizedCrop has no such demand. */
struct zt_box zt_augment_crop(const struct zt_augment_config *how, struct zt_draw draw,
                              const struct zt_picture *picture, int height, int width);
struct zt_box zt_augment_resized_crop(const struct zt_augment_config *how, struct zt_draw draw,
                                      const struct zt_picture *picture);
/* RandomHorizontalFlip, RandomVerticalFlip and ColorJitter. */
void zt_augment_picture(const struct zt_augment_config *how, struct zt_draw draw, struct zt_picture *picture);
/* RandomErasing with value 0, and Cutout (DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks
 * with Cutout", 2017), on a normalised sample. */
void zt_augment_erase(const struct zt_augment_config *how, struct zt_draw draw, struct zt_picture *picture);

#endif
