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

bool zt_picture_create(struct zt_picture *p, int channels, int height, int width, struct zt_err *err) {
    *p = (struct zt_picture){ .channels = channels, .height = height, .width = width };
    p->at = malloc((size_t)channels * zt_picture_plane(p) * sizeof *p->at);
    return p->at || no_memory(p, err);
}

bool zt_picture_create_levels(struct zt_picture *p, int channels, uint32_t height, uint32_t width, struct zt_err *err) {
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
    if (!zt_picture_create_levels(&to, channels, (uint32_t)p->height, (uint32_t)p->width, err))
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

/* Pixels from..end of a row of channel c. */
static void copy_pixels(const struct zt_picture *p, int c, int row, int from, int end, float *to) {
    const size_t at = (size_t)row * (size_t)p->width + (size_t)from, step = (size_t)p->channels;
    if (p->at) {
        memcpy(to, p->at + (size_t)c * zt_picture_plane(p) + at, (size_t)(end - from) * sizeof *to);
        return;
    }
    const unsigned char *level = p->levels + at * step + (size_t)c;
    for (int x = 0; x < end - from; x++)
        to[x] = (float)level[(size_t)x * step] / 255.0f;
}

/* Row `y` of the box, into `to`. */
static void crop_row(const struct zt_picture *p, int c, struct zt_box box, int y, float *to) {
    int row = box.top + y, from = clip(box.left, 0, p->width), end = clip(box.left + box.width, 0, p->width);
    if (from > box.left || end < box.left + box.width || row < 0 || row >= p->height)
        memset(to, 0, (size_t)box.width * sizeof *to);
    if (row >= 0 && row < p->height && from < end)
        copy_pixels(p, c, row, from, end, to + (from - box.left));
}

bool zt_picture_crop(struct zt_picture *p, struct zt_box box, struct zt_err *err) {
    struct zt_picture part;
    if (p->at && box.top == 0 && box.left == 0 && box.height == p->height && box.width == p->width)
        return true;
    if (!zt_picture_create(&part, p->channels, box.height, box.width, err))
        return false;
    for (int c = 0; c < p->channels; c++)
        for (int y = 0; y < box.height; y++)
            crop_row(p, c, box, y, part.at + ((size_t)c * (size_t)box.height + (size_t)y) * (size_t)box.width);
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

/* The centre of output i is scale (i + 1/2) in the input; the weight of an input pixel falls linearly with the distance
 * of its centre and is 0 from max(scale, 1) on. The weights of an output sum to 1. */
static void fill_filter(struct filter *f, int in, int out) {
    const double scale = (double)in / out, support = scale > 1 ? scale : 1;
    f->most = (int)ceil(support) * 2 + 1;
    f->first = zt_malloc((size_t)out * sizeof *f->first);
    f->count = zt_malloc((size_t)out * sizeof *f->count);
    f->weight = zt_calloc((size_t)out * (size_t)f->most, sizeof *f->weight);
    for (int i = 0; i < out; i++) {
        const double center = scale * (i + 0.5);
        const int first = clip((int)(center - support + 0.5), 0, in), end = clip((int)(center + support + 0.5), 0, in);
        double sum = 0;
        f->first[i] = first;
        f->count[i] = end - first;
        for (int k = 0; k < end - first; k++)
            sum += fmax(0, 1 - fabs((first + k + 0.5 - center) / support));
        for (int k = 0; k < end - first; k++)
            f->weight[(size_t)i * (size_t)f->most + (size_t)k] =
                (float)(fmax(0, 1 - fabs((first + k + 0.5 - center) / support)) / sum);
    }
}

static void finish_filter(struct filter *f) {
    free(f->first);
    free(f->count);
    free(f->weight);
}

static void resize_row(const struct filter *f, const float *from, int width, float *to) {
    for (int x = 0; x < width; x++) {
        const float *weight = f->weight + (size_t)x * (size_t)f->most, *at = from + f->first[x];
        float sum = 0;
        for (int k = 0; k < f->count[x]; k++)
            sum += weight[k] * at[k];
        to[x] = sum;
    }
}

static void resize_rows(const struct zt_picture *p, int width, struct zt_picture *to) {
    struct filter f;
    float *row = zt_malloc((size_t)p->width * sizeof *row);
    fill_filter(&f, p->width, width);
    for (int c = 0; c < p->channels; c++)
        for (int y = 0; y < p->height; y++) {
            copy_pixels(p, c, y, 0, p->width, row);
            resize_row(&f, row, width, to->at + ((size_t)c * (size_t)p->height + (size_t)y) * (size_t)width);
        }
    finish_filter(&f);
    free(row);
}

static void resize_columns(const struct zt_picture *p, int height, struct zt_picture *to) {
    struct filter f;
    const size_t width = (size_t)p->width;
    fill_filter(&f, p->height, height);
    memset(to->at, 0, (size_t)to->channels * zt_picture_plane(to) * sizeof *to->at);
    for (int c = 0; c < p->channels; c++)
        for (int y = 0; y < height; y++) {
            float *row = to->at + ((size_t)c * (size_t)height + (size_t)y) * width;
            const float *from = p->at + (size_t)c * zt_picture_plane(p) + (size_t)f.first[y] * width;
            for (int k = 0; k < f.count[y]; k++, from += width) {
                const float weight = f.weight[(size_t)y * (size_t)f.most + (size_t)k];
                for (size_t x = 0; x < width; x++)
                    row[x] += weight * from[x];
            }
        }
    finish_filter(&f);
}

bool zt_picture_resize(struct zt_picture *p, int height, int width, struct zt_err *err) {
    struct zt_picture to;
    if (width != p->width || !p->at) {
        if (!zt_picture_create(&to, p->channels, p->height, width, err))
            return false;
        resize_rows(p, width, &to);
        replace(p, &to);
    }
    if (height != p->height) {
        if (!zt_picture_create(&to, p->channels, height, p->width, err))
            return false;
        resize_columns(p, height, &to);
        replace(p, &to);
    }
    return true;
}
