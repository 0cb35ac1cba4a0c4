/* Changes of colours of pictures of floats in 0..1, as torchvision's functions for float tensors have them. Results are
 * clamped to 0..1. */
#ifndef ZT_DATA_PICTURE_COLOUR_H
#define ZT_DATA_PICTURE_COLOUR_H

#include "data/picture/picture.h"

/* adjust_brightness: factor x. */
void zt_picture_brightness(struct zt_picture *picture, float factor);
/* adjust_contrast: factor x + (1 - factor) m, where m is the mean luma 0.2989 R + 0.587 G + 0.114 B. */
void zt_picture_contrast(struct zt_picture *picture, float factor);
/* adjust_saturation: factor x + (1 - factor) luma. Pictures of 1 channel do not change. */
void zt_picture_saturation(struct zt_picture *picture, float factor);
/* adjust_hue: the hue (of hue, saturation and value) is moved by `turns`, -0.5 to 0.5. Pictures of 1 channel do not
 * change. */
void zt_picture_hue(struct zt_picture *picture, float turns);

#endif
