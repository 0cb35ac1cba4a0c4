#include "data/images.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct zt_images {
    int resize;
    bool augments;
    struct zt_augment_config how;
    uint64_t seed;
    float mean[ZT_COLUMNS][ZT_CHANNELS], std[ZT_COLUMNS][ZT_CHANNELS];
};

static bool check_numbers(const struct zt_numbers *numbers, const char *key, int channels, struct zt_err *err) {
    if (numbers->count == 0 || numbers->count == channels)
        return true;
    return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.normalize.%s: has %d values, the images have %d channels", key,
                   numbers->count, channels);
}

bool zt_images_normal(const struct zt_data_config *data, int channels, float *mean, float *std, struct zt_err *err) {
    if (!check_numbers(&data->mean, "mean", channels, err) || !check_numbers(&data->std, "std", channels, err))
        return false;
    for (int c = 0; c < channels; c++) {
        mean[c] = data->mean.count ? (float)data->mean.at[c] : 0;
        std[c] = data->std.count ? (float)data->std.at[c] : 1;
        if (!(std[c] > 0))
            return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.data.normalize.std: value %g, wants more than 0",
                           (double)std[c]);
    }
    return true;
}

static bool open_column(struct zt_images *images, const struct zt_source *source, int i,
                        const struct zt_data_config *data, struct zt_err *err) {
    const struct zt_shape *shape = &source->column[i].shape;
    char text[ZT_SHAPE_TEXT];
    if (shape->rank != 3 || shape->dim[0] < 1 || shape->dim[0] > ZT_CHANNELS || shape->dim[1] < 1 ||
        shape->dim[1] > ZT_PICTURE_SIDE || shape->dim[2] < 1 || shape->dim[2] > ZT_PICTURE_SIDE)
        return zt_fail(err, ZT_EXIT_DATA, "column \"%s\" has samples of shape %s, an image has [C, H, W]",
                       source->column[i].name, zt_shape_text(shape, text));
    return zt_images_normal(data, (int)shape->dim[0], images->mean[i], images->std[i], err);
}

bool zt_images_open(struct zt_source *source, const struct zt_config *config, int resize, struct zt_err *err) {
    source->images = zt_calloc(1, sizeof *source->images);
    source->images->resize = resize;
    bool ok = true;
    for (int i = 0; ok && i < source->column_count; i++)
        ok = !source->is_image[i] || open_column(source->images, source, i, &config->data, err);
    return ok;
}

bool zt_images_augment(struct zt_source *source, const struct zt_config *config, struct zt_err *err) {
    if (!source->images && !zt_images_open(source, config, -1, err))
        return false;
    source->images->augments = true;
    source->images->how = config->data.augment;
    source->images->seed = (uint64_t)config->seed;
    return true;
}

void zt_images_destroy(struct zt_images *images) {
    free(images);
}

/* ---- geometry ---- */

/* The size to which a picture is resized before it is cropped: the shorter side is `resize`, or the least that covers
 * the crop; the longer one is rounded down. */
static void resized(const struct zt_picture *p, int resize, int height, int width, int64_t *to_height,
                    int64_t *to_width) {
    const bool wide = resize > 0 ? p->width >= p->height : (int64_t)p->width * height >= (int64_t)p->height * width;
    const int64_t side = resize > 0 ? resize : wide ? height : width;
    *to_height = wide ? side : side * p->height / p->width;
    *to_width = wide ? side * p->width / p->height : side;
}

static bool resize_first(const struct zt_images *images, struct zt_picture *p, int height, int width,
                         struct zt_err *err) {
    int64_t to_height, to_width;
    if (images->resize < 0)
        return true;
    resized(p, images->resize, height, width, &to_height, &to_width);
    if (to_height * to_width > ZT_PICTURE_PIXELS || to_height > ZT_PICTURE_SIDE || to_width > ZT_PICTURE_SIDE)
        return zt_fail(err, ZT_EXIT_DATA, "%d x %d pixels would be resized to %lld x %lld, which is too large",
                       p->width, p->height, (long long)to_width, (long long)to_height);
    return zt_picture_resize(p, (int)to_height, (int)to_width, err);
}

static bool crop(const struct zt_images *images, struct zt_draw draw, struct zt_picture *p, int height, int width,
                 struct zt_err *err) {
    const struct zt_augment_config *how = &images->how;
    const bool random = images->augments && how->random_crop;
    const int padding = random ? how->padding : 0;
    if (p->height + 2 * padding < height || p->width + 2 * padding < width)
        return zt_fail(err, ZT_EXIT_DATA, "the picture has %d x %d pixels, the model wants %d x %d", p->width,
                       p->height, width, height);
    return zt_picture_crop(
        p, random ? zt_augment_crop(how, draw, p, height, width) : zt_picture_center(p, height, width), err);
}

static bool resized_crop(const struct zt_images *images, struct zt_draw draw, struct zt_picture *p, int height,
                         int width, struct zt_err *err) {
    return zt_picture_crop(p, zt_augment_resized_crop(&images->how, draw, p), err) &&
           zt_picture_resize(p, height, width, err);
}

/* ---- a sample ---- */

static bool colours_fit(const struct zt_source *source, int column, const struct zt_picture *p, struct zt_err *err) {
    const struct zt_augment_config *how = &source->images->how;
    if (!(how->brightness > 0 || how->contrast > 0 || how->saturation > 0 || how->hue > 0))
        return true;
    for (size_t i = 0; p->at && i < (size_t)p->channels * zt_picture_plane(p); i++)
        if (!(p->at[i] >= 0 && p->at[i] <= 1))
            return zt_fail(err, ZT_EXIT_DATA,
                           "column \"%s\": value %g, ztrain.data.augment.color_jitter wants values in 0..1",
                           source->column[column].name, (double)p->at[i]);
    return true;
}

static void normalize(const struct zt_images *images, int column, struct zt_picture *p) {
    const size_t plane = zt_picture_plane(p);
    for (int c = 0; c < p->channels; c++) {
        const float mean = images->mean[column][c], std = images->std[column][c];
        float *at = p->at + (size_t)c * plane;
        for (size_t i = 0; i < plane; i++)
            at[i] = (at[i] - mean) / std;
    }
}

static bool make_sample(const struct zt_source *source, int column, struct zt_draw draw, struct zt_picture *p,
                        struct zt_err *err) {
    const struct zt_images *images = source->images;
    const struct zt_column *c = &source->column[column];
    const int height = (int)c->shape.dim[1], width = (int)c->shape.dim[2];
    const bool random = images->augments;
    if (random && !colours_fit(source, column, p, err))
        return false;
    if (random && images->how.resized_crop
            ? !resized_crop(images, draw, p, height, width, err)
            : !resize_first(images, p, height, width, err) || !crop(images, draw, p, height, width, err))
        return false;
    if (random)
        zt_augment_picture(&images->how, draw, p);
    normalize(images, column, p);
    if (random)
        zt_augment_erase(&images->how, draw, p);
    return true;
}

static void store(const struct zt_column *c, const struct zt_picture *p, void *to) {
    if (c->dtype == ZT_FLOAT) {
        memcpy(to, p->at, c->sample_bytes);
        return;
    }
    for (int64_t i = 0; i < zt_shape_count(&c->shape); i++)
        zt_store_double(c->dtype, to, i, (double)p->at[i]);
}

bool zt_images_read(const struct zt_source *source, int column, struct zt_sample sample, void *to, struct zt_err *err) {
    struct zt_picture picture = { 0 };
    const int first = err->count;
    const struct zt_draw draw = { source->images->seed, sample };
    bool ok = source->format->picture(source, column, sample.index, &picture, err);
    if (ok && !make_sample(source, column, draw, &picture, err))
        ok = source->format->name_sample ? source->format->name_sample(source, sample.index, first, err)
                                         : zt_err_within(err, first, "sample %lld", (long long)sample.index);
    if (ok)
        store(&source->column[column], &picture, to);
    zt_picture_finish(&picture);
    return ok;
}
