#include "data/picture/jpeg_file.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

enum { MOST_SCANS = 500 }; /* a progressive file with more takes long and shows nothing new */

/* The library's state; its functions receive pointers to the members and find the others beside them. */
struct decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    char why[JMSG_LENGTH_MAX];
    unsigned char *row; /* of CMYK */
};

static void fail(j_common_ptr info) {
    struct decoder *d = info->client_data;
    info->err->format_message(info, d->why);
    longjmp(d->failed, 1);
}

/* Damaged data are warnings of the library, which then goes on with grey. Bytes between segments do no harm. */
static void warn(j_common_ptr info, int level) {
    if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA && info->err->msg_code != JWRN_ADOBE_XFORM &&
        info->err->msg_code != JWRN_JFIF_MAJOR)
        fail(info);
}

static void watch_scans(j_common_ptr info) {
    struct decoder *d = info->client_data;
    if (d->info.input_scan_number > MOST_SCANS) {
        snprintf(d->why, sizeof d->why, "more than %d scans", MOST_SCANS);
        longjmp(d->failed, 1);
    }
}

/* Adobe's CMYK is inverted in the file: red is C K / 255. */
static void from_cmyk(const unsigned char *cmyk, int width, unsigned char *rgb) {
    for (int x = 0; x < width; x++)
        for (int c = 0; c < 3; c++)
            rgb[3 * x + c] = (unsigned char)((cmyk[4 * x + c] * cmyk[4 * x + 3] + 127) / 255);
}

static void read_rows(struct decoder *d, struct zt_picture *to) {
    const size_t row_bytes = (size_t)to->width * (size_t)to->channels;
    while (d->info.output_scanline < d->info.output_height) {
        unsigned char *row = to->levels + d->info.output_scanline * row_bytes, *at = d->row ? d->row : row;
        jpeg_read_scanlines(&d->info, &at, 1);
        if (d->row)
            from_cmyk(d->row, to->width, row);
    }
}

static void start(struct decoder *d, const unsigned char *bytes, size_t size) {
    d->info.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = fail;
    d->errors.emit_message = warn;
    d->info.client_data = d;
    jpeg_create_decompress(&d->info);
    d->progress.progress_monitor = watch_scans;
    d->info.progress = &d->progress;
    jpeg_mem_src(&d->info, bytes, size);
    jpeg_read_header(&d->info, TRUE);
}

/* Grey stays grey; CMYK is read as such; all else becomes RGB. */
static int choose_channels(struct decoder *d) {
    const bool grey = d->info.jpeg_color_space == JCS_GRAYSCALE;
    const bool cmyk = d->info.jpeg_color_space == JCS_CMYK || d->info.jpeg_color_space == JCS_YCCK;
    d->info.out_color_space = grey ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
    return grey ? 1 : 3;
}

static bool decode(struct decoder *d, const unsigned char *bytes, size_t size, struct zt_picture *to,
                   struct zt_err *err) {
    if (setjmp(d->failed))
        return zt_fail(err, ZT_EXIT_DATA, "is a broken JPEG file: %s", d->why);
    start(d, bytes, size);
    const int channels = choose_channels(d);
    if (!zt_picture_init_levels(to, channels, d->info.image_height, d->info.image_width, err))
        return false;
    if (d->info.out_color_space == JCS_CMYK && !(d->row = malloc(4 * (size_t)to->width)))
        return zt_fail(err, ZT_EXIT_RUN, "no memory for a row of %d pixels", to->width);
    jpeg_start_decompress(&d->info);
    read_rows(d, to);
    jpeg_finish_decompress(&d->info);
    return true;
}

bool zt_jpeg_decode(const unsigned char *bytes, size_t size, struct zt_picture *to, struct zt_err *err) {
    struct decoder *d = calloc(1, sizeof *d);
    if (!d)
        return zt_fail(err, ZT_EXIT_RUN, "no memory to decode a JPEG file");
    bool ok = decode(d, bytes, size, to, err);
    jpeg_destroy_decompress(&d->info);
    free(d->row);
    free(d);
    return ok;
}
