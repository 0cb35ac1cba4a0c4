/* PNG files by libpng. */
#ifndef ZT_DATA_PICTURE_PNG_FILE_H
#define ZT_DATA_PICTURE_PNG_FILE_H

#include "data/picture/picture.h"

/* As zt_image_decode(); the bytes begin like such a file. On failure the caller finishes `to`, which is zeroed before.
 */
bool zt_png_decode(const unsigned char *bytes, size_t size, struct zt_picture *to, struct zt_err *err);

#endif
