#include "data/picture/picture.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t zt_picture_plane(const struct zt_picture *p) {
    return (size_t)p->height * (size_t)p->width;
}

static bool no_memory(const struct zt_picture *p, struct zt_err *err) {
    return zt_fail(err, ZT_EXIT_RUN, "data: no memory for a picture of %d x %d pixels", p->width, p->height);
}

bool zt_picture_init(struct zt_picture *p, int channels, int height, int width, struct zt_err *err) {
    *p = (struct zt_picture){ .channels = channels, .height = height, .width = width };
    p->at = malloc((size_t)channels * zt_picture_plane(p) * sizeof *p->at);
    return p->at || no_memory(p, err);
}

bool zt_picture_init_levels(struct zt_picture *p, int channels, uint32_t height, uint32_t width, struct zt_err *err) {
    if (height < 1 || width < 1 || height > ZT_PICTURE_SIDE || width > ZT_PICTURE_SIDE ||
        (uint64_t)height * width > ZT_PICTURE_PIXELS)
        return zt_fail(err, ZT_EXIT_DATA, "has %u x %u pixels, wants at most %d in all", (unsigned)width,
                       (unsigned)height, ZT_PICTURE_PIXELS);
    *p = (struct zt_picture){ .channels = channels, .height = (int)height, .width = (int)width };
    p->levels = malloc((size_t)channels * zt_picture_plane(p));
    return p->levels || no_memory(p, err);
}

void zt_picture_finish(struct zt_picture *p) {
    free(p->at);
    free(p->levels);
    *p = (struct zt_picture){ 0 };
}

static void replace(struct zt_picture *p, const struct zt_picture *by) {
    zt_picture_finish(p);
    *p = *by;
}

/* ---- channels ---- */

/* The weights of ITU-R 601-2 in units of 2^-16. */
static unsigned char luma(const unsigned char rgb[3]) {
    return (unsigned char)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

bool zt_picture_set_channels(struct zt_picture *p, int channels, struct zt_err *err) {
    struct zt_picture to;
    if (p->channels == channels)
        return true;
    if (!zt_picture_init_levels(&to, channels, (uint32_t)p->height, (uint32_t)p->width, err))
        return false;
    for (size_t i = 0; i < zt_picture_plane(p); i++)
        if (channels == 1)
            to.levels[i] = luma(p->levels + 3 * i);
        else
            memset(to.levels + 3 * i, p->levels[i], 3);
    replace(p, &to);
    return true;
}

/* ---- cropping ---- */

struct zt_box zt_picture_center(const struct zt_picture *p, int height, int width) {
    return (struct zt_box){ (int)rint((p->height - height) / 2.0), (int)rint((p->width - width) / 2.0), height, width };
}

static int clip(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

/* Copies the part of rows of pixels of `bytes` bytes. */
static void crop_sheet(const struct zt_picture *p, const unsigned char *sheet, size_t bytes, struct zt_box box,
                       unsigned char *to) {
    const int from = clip(box.left, 0, p->width), end = clip(box.left + box.width, 0, p->width);
    const size_t row_bytes = (size_t)box.width * bytes;
    for (int y = 0; y < box.height; y++, to += row_bytes) {
        const int row = box.top + y;
        if (from > box.left || end < box.left + box.width || row < 0 || row >= p->height)
            memset(to, 0, row_bytes);
        if (row >= 0 && row < p->height && from < end)
            memcpy(to + (size_t)(from - box.left) * bytes,
                   sheet + ((size_t)row * (size_t)p->width + (size_t)from) * bytes, (size_t)(end - from) * bytes);
    }
}

bool zt_picture_crop(struct zt_picture *p, struct zt_box box, struct zt_err *err) {
    const size_t plane = (size_t)box.height * (size_t)box.width;
    struct zt_picture part;
    if (box.top == 0 && box.left == 0 && box.height == p->height && box.width == p->width)
        return true;
    if (p->levels ? !zt_picture_init_levels(&part, p->channels, (uint32_t)box.height, (uint32_t)box.width, err)
                  : !zt_picture_init(&part, p->channels, box.height, box.width, err))
        return false;
    if (p->levels)
        crop_sheet(p, p->levels, (size_t)p->channels, box, part.levels);
    for (size_t c = 0; p->at && c < (size_t)p->channels; c++)
        crop_sheet(p, (const unsigned char *)(p->at + c * zt_picture_plane(p)), sizeof *p->at, box,
                   (unsigned char *)(part.at + c * plane));
    replace(p, &part);
    return true;
}

void zt_picture_flip_columns(struct zt_picture *p) {
    size_t rows = (size_t)p->channels * (size_t)p->height, width = (size_t)p->width;
    for (size_t r = 0; r < rows; r++) {
        float *row = p->at + r * width;
        for (size_t a = 0, b = width - 1; a < b; a++, b--) {
            float swapped = row[a];
            row[a] = row[b];
            row[b] = swapped;
        }
    }
}

void zt_picture_flip_rows(struct zt_picture *p) {
    size_t width = (size_t)p->width, plane = zt_picture_plane(p);
    for (int c = 0; c < p->channels; c++)
        for (int a = 0, b = p->height - 1; a < b; a++, b--)
            for (size_t x = 0; x < width; x++) {
                float *first = p->at + (size_t)c * plane, *top = first + (size_t)a * width + x,
                      *bottom = first + (size_t)b * width + x, swapped = *top;
                *top = *bottom;
                *bottom = swapped;
            }
}

/* ---- resizing ---- */

/* Along one axis: output i is the sum of weight[i * most + k] * input[first[i] + k], k < count[i]. */
struct filter {
    int *first, *count, most;
    float *weight;
};

/* The weights of output i: its centre is scale (i + 1/2) in the input, and the weight of an input pixel falls linearly
 * with the distance of its centre and is 0 from max(scale, 1) on. Returns their number. The weights sum to 1. */
static int fill_weights(double scale, int i, int in, int *first, float *weight) {
    const double support = scale > 1 ? scale : 1, center = scale * (i + 0.5);
    const int from = clip((int)(center - support + 0.5), 0, in), end = clip((int)(center + support + 0.5), 0, in);
    double sum = 0;
    int count = end - from;
    *first = from;
    for (int k = 0; k < count; k++)
        sum += fmax(0, 1 - fabs((from + k + 0.5 - center) / support));
    for (int k = 0; k < count; k++)
        weight[k] = (float)(fmax(0, 1 - fabs((from + k + 0.5 - center) / support)) / sum);
    while (count > 1 && weight[count - 1] == 0)
        count--;
    return count;
}

/* A filter for `count` of the `out` outputs, from output `start` on. */
static void fill_filter(struct filter *f, int in, int out, int start, int count) {
    const double scale = (double)in / out;
    f->most = (int)ceil(scale > 1 ? scale : 1) * 2 + 1;
    f->first = zt_malloc((size_t)count * sizeof *f->first);
    f->count = zt_malloc((size_t)count * sizeof *f->count);
    f->weight = zt_calloc((size_t)count * (size_t)f->most, sizeof *f->weight);
    for (int i = 0; i < count; i++)
        f->count[i] = fill_weights(scale, start + i, in, &f->first[i], f->weight + (size_t)i * (size_t)f->most);
}

static void finish_filter(struct filter *f) {
    free(f->first);
    free(f->count);
    free(f->weight);
}

/* A picture as rows of `step` numbers a pixel: one sheet of all channels where it has levels, else one a channel. */
struct sheet {
    const struct zt_picture *picture;
    int channel, step;
};

/* Adds weight times row `y` of the sheet. */
static void add_row(const struct sheet *sheet, int y, float weight, float *to) {
    const struct zt_picture *p = sheet->picture;
    const size_t count = (size_t)p->width * (size_t)sheet->step, at = (size_t)y * count;
    if (p->levels)
        for (size_t i = 0; i < count; i++)
            to[i] += weight * (float)p->levels[at + i];
    else
        for (size_t i = 0; i < count; i++)
            to[i] += weight * p->at[(size_t)sheet->channel * zt_picture_plane(p) + at + i];
}

/* Filters a row of the sheet to the pixels of row `y` of `to`. */
static void resize_row(const struct sheet *sheet, const struct filter *f, const float *row, struct zt_picture *to,
                       int y) {
    const float unit = sheet->picture->levels ? 255.0f : 1.0f;
    for (int s = 0; s < sheet->step; s++) {
        float *out = to->at + (size_t)(sheet->channel + s) * zt_picture_plane(to) + (size_t)y * (size_t)to->width;
        for (int x = 0; x < to->width; x++) {
            const float *weight = f->weight + (size_t)x * (size_t)f->most,
                        *at = row + (size_t)f->first[x] * (size_t)sheet->step + s;
            float sum = 0;
            for (int k = 0; k < f->count[x]; k++)
                sum += weight[k] * at[(size_t)k * (size_t)sheet->step];
            out[x] = sum / unit;
        }
    }
}

/* Row by row: first the columns are filtered, whose neighbours lie side by side in memory, then the row. */
static void resize_sheet(const struct sheet *sheet, const struct filter f[2], struct zt_picture *to, float *row) {
    const size_t count = (size_t)sheet->picture->width * (size_t)sheet->step;
    for (int y = 0; y < to->height; y++) {
        memset(row, 0, count * sizeof *row);
        for (int k = 0; k < f[0].count[y]; k++)
            add_row(sheet, f[0].first[y] + k, f[0].weight[(size_t)y * (size_t)f[0].most + (size_t)k], row);
        resize_row(sheet, &f[1], row, to, y);
    }
}

bool zt_picture_resize(struct zt_picture *p, int height, int width, const struct zt_box *part, struct zt_err *err) {
    const struct zt_box all = { 0, 0, height, width }, *box = part ? part : &all;
    const int step = p->levels ? p->channels : 1;
    struct zt_picture to;
    struct filter f[2];
    if (p->at && height == p->height && width == p->width)
        return zt_picture_crop(p, *box, err);
    if (!zt_picture_init(&to, p->channels, box->height, box->width, err))
        return false;
    float *row = zt_malloc((size_t)p->width * (size_t)step * sizeof *row);
    fill_filter(&f[0], p->height, height, box->top, box->height);
    fill_filter(&f[1], p->width, width, box->left, box->width);
    for (int c = 0; c < p->channels; c += step)
        resize_sheet(&(struct sheet){ p, c, step }, f, &to, row);
    finish_filter(&f[0]);
    finish_filter(&f[1]);
    free(row);
    replace(p, &to);
    return true;
}
