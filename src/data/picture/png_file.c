#include "data/picture/png_file.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

enum { MOST_CHUNK_BYTES = 8 << 20 };

struct decoder {
    png_structp png;
    png_infop info;
    const unsigned char *at;
    size_t left;
    png_bytep *rows;
    jmp_buf failed;
    char why[96];
};

static void fail(png_structp png, png_const_charp why) {
    struct decoder *d = png_get_error_ptr(png);
    snprintf(d->why, sizeof d->why, "%s", why);
    longjmp(d->failed, 1);
}

static void ignore(png_structp png, png_const_charp why) {
    (void)png, (void)why;
}

static void give(png_structp png, png_bytep to, size_t count) {
    struct decoder *d = png_get_io_ptr(png);
    if (count > d->left)
        png_error(png, "ends too early");
    memcpy(to, d->at, count);
    d->at += count;
    d->left -= count;
}

/* Palettes become colours, all depths 8 bits, and alpha is dropped. */
static void set_levels(struct decoder *d) {
    png_set_expand(d->png);
    png_set_scale_16(d->png);
    png_set_strip_alpha(d->png);
    png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
}

static bool start(struct decoder *d) {
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, fail, ignore);
    d->info = d->png ? png_create_info_struct(d->png) : NULL;
    return d->info != NULL;
}

static bool decode(struct decoder *d, struct zt_picture *to, struct zt_err *err) {
    if (setjmp(d->failed))
        return zt_fail(err, ZT_EXIT_DATA, "is a broken PNG file: %s", d->why);
    if (!start(d))
        return zt_fail(err, ZT_EXIT_RUN, "no memory to decode a PNG file");
    png_set_user_limits(d->png, ZT_PICTURE_SIDE, ZT_PICTURE_SIDE);
    png_set_chunk_malloc_max(d->png, MOST_CHUNK_BYTES);
    png_set_read_fn(d->png, d, give);
    png_read_info(d->png, d->info);
    const uint32_t height = png_get_image_height(d->png, d->info), width = png_get_image_width(d->png, d->info);
    set_levels(d);
    if (!zt_picture_init_levels(to, png_get_channels(d->png, d->info), height, width, err))
        return false;
    d->rows = malloc(height * sizeof *d->rows);
    if (!d->rows || png_get_rowbytes(d->png, d->info) != (size_t)to->width * (size_t)to->channels)
        return zt_fail(err, ZT_EXIT_RUN, "no memory for %u rows", (unsigned)height);
    for (uint32_t y = 0; y < height; y++)
        d->rows[y] = to->levels + y * (size_t)to->width * (size_t)to->channels;
    png_read_image(d->png, d->rows);
    png_read_end(d->png, NULL);
    return true;
}

bool zt_png_decode(const unsigned char *bytes, size_t size, struct zt_picture *to, struct zt_err *err) {
    struct decoder *d = calloc(1, sizeof *d);
    if (!d)
        return zt_fail(err, ZT_EXIT_RUN, "no memory to decode a PNG file");
    d->at = bytes;
    d->left = size;
    bool ok = decode(d, to, err);
    png_destroy_read_struct(&d->png, &d->info, NULL);
    free(d->rows);
    free(d);
    return ok;
}
