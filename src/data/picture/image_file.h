/* JPEG and PNG files: decoding to levels. Files are hostile: sides and pixels are bounded (data/picture/picture.h)
 * before memory is taken for them, and a damaged file is an error. */
#ifndef ZT_DATA_IMAGE_FILE_H
#define ZT_DATA_IMAGE_FILE_H

#include "data/picture/picture.h"

/* Decodes the bytes of a file, which tell its kind, to a picture of levels with 1 or 3 channels. Palettes and 16 bits a
 * channel become 8 bits, alpha is dropped. Errors have the exit code 4 and do not name the file. */
bool zt_image_decode(const unsigned char *bytes, size_t size, struct zt_picture *to, struct zt_err *err);

#endif
