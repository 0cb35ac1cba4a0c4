#include "data/picture/image_file.h"

#include "data/picture/jpeg_file.h"
#include "data/picture/png_file.h"

#include <string.h>

bool zt_image_decode(const unsigned char *bytes, size_t size, struct zt_picture *to, struct zt_err *err) {
    *to = (struct zt_picture){ 0 };
    bool ok = size >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0 ? zt_jpeg_decode(bytes, size, to, err)
              : size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0
                  ? zt_png_decode(bytes, size, to, err)
                  : zt_fail(err, ZT_EXIT_DATA, "is neither a JPEG nor a PNG file");
    if (!ok)
        zt_picture_finish(to);
    return ok;
}
