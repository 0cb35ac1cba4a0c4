#include "data/augment.h"

#include "base/rng.h"
#include "data/picture/colour.h"

#include <math.h>

enum { ATTEMPTS = 10 }; /* at a box that fits, as torchvision has it */
enum change { CROP, RESIZED_CROP, COLUMNS, ROWS, JITTER, ERASE, CUTOUT };
static const uint64_t augment_tag = 0x6175676d656e74; /* "augment" */

bool zt_augments(const struct zt_augment_config *a) {
    return a->random_crop || a->resized_crop || a->horizontal_flip > 0 || a->vertical_flip > 0 || a->brightness > 0 ||
           a->contrast > 0 || a->saturation > 0 || a->hue > 0 || a->erase || a->cutout > 0;
}

static struct zt_rng start(struct zt_draw draw, enum change change) {
    uint64_t key = zt_rng_key(draw.seed, (uint64_t)draw.sample.epoch, augment_tag, (uint64_t)change);
    return zt_rng_start(key, (uint64_t)draw.sample.index);
}

/* Uniform in [0, 1). */
static double unit(struct zt_rng *rng) {
    return zt_rng_u32(rng) / 4294967296.0;
}

static double between(struct zt_rng *rng, double low, double high) {
    return low + (high - low) * unit(rng);
}

/* Uniform in 0..most. */
static int upto(struct zt_rng *rng, int most) {
    return (int)zt_rng_below(rng, (uint64_t)most + 1);
}

/* ---- crops ---- */

struct zt_box zt_augment_crop(const struct zt_augment_config *how, struct zt_draw draw, const struct zt_picture *p,
                              int height, int width) {
    struct zt_rng rng = start(draw, CROP);
    int top = upto(&rng, p->height + 2 * how->padding - height), left = upto(&rng, p->width + 2 * how->padding - width);
    return (struct zt_box){ top - how->padding, left - how->padding, height, width };
}

/* The largest box in the middle whose ratio of width to height is allowed. */
static struct zt_box central_box(const double ratio[2], const struct zt_picture *p) {
    double have = (double)p->width / p->height;
    int height = p->height, width = p->width;
    if (have < ratio[0])
        height = (int)rint(width / ratio[0]);
    else if (have > ratio[1])
        width = (int)rint(height * ratio[1]);
    height = height < 1 ? 1 : height;
    width = width < 1 ? 1 : width;
    return (struct zt_box){ (p->height - height) / 2, (p->width - width) / 2, height, width };
}

struct zt_box zt_augment_resized_crop(const struct zt_augment_config *how, struct zt_draw draw,
                                      const struct zt_picture *p) {
    struct zt_rng rng = start(draw, RESIZED_CROP);
    for (int i = 0; i < ATTEMPTS; i++) {
        double area = between(&rng, how->crop_scale[0], how->crop_scale[1]) * p->height * p->width;
        double ratio = exp(between(&rng, log(how->crop_ratio[0]), log(how->crop_ratio[1])));
        double width = rint(sqrt(area * ratio)), height = rint(sqrt(area / ratio));
        if (!(width > 0 && width <= p->width && height > 0 && height <= p->height))
            continue;
        int top = upto(&rng, p->height - (int)height), left = upto(&rng, p->width - (int)width);
        return (struct zt_box){ top, left, (int)height, (int)width };
    }
    return central_box(how->crop_ratio, p);
}

/* ---- colour ---- */

enum { JITTERS = 4 };

/* ColorJitter: the four changes in a random order. */
static void jitter(const struct zt_augment_config *how, struct zt_draw draw, struct zt_picture *p) {
    static void (*const change[JITTERS])(struct zt_picture *, float) = { zt_picture_brightness, zt_picture_contrast, zt_picture_saturation,
                                                                         zt_picture_hue };
    const double strength[JITTERS] = { how->brightness, how->contrast, how->saturation, how->hue };
    int order[JITTERS] = { 0, 1, 2, 3 };
    float factor[JITTERS];
    struct zt_rng rng = start(draw, JITTER);
    for (int i = JITTERS - 1; i > 0; i--) {
        int j = upto(&rng, i), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
    for (int i = 0; i < JITTERS; i++) {
        double middle = i == JITTERS - 1 ? 0 : 1; /* the hue is shifted, the others are multiplied */
        factor[i] = (float)between(&rng, fmax(middle - strength[i], middle - 1), middle + strength[i]);
    }
    for (int i = 0; i < JITTERS; i++)
        if (strength[order[i]] > 0)
            change[order[i]](p, factor[order[i]]);
}

static bool happens(struct zt_draw draw, enum change change, double probability) {
    struct zt_rng rng = start(draw, change);
    return unit(&rng) < probability;
}

void zt_augment_picture(const struct zt_augment_config *how, struct zt_draw draw, struct zt_picture *p) {
    if (happens(draw, COLUMNS, how->horizontal_flip))
        zt_picture_flip_columns(p);
    if (happens(draw, ROWS, how->vertical_flip))
        zt_picture_flip_rows(p);
    if (how->brightness > 0 || how->contrast > 0 || how->saturation > 0 || how->hue > 0)
        jitter(how, draw, p);
}

/* ---- erasing ---- */

/* Sets the pixels of a box to 0, as far as it lies in the picture. */
static void erase(struct zt_picture *p, struct zt_box box) {
    for (int c = 0; c < p->channels; c++)
        for (int y = box.top < 0 ? 0 : box.top; y < box.top + box.height && y < p->height; y++)
            for (int x = box.left < 0 ? 0 : box.left; x < box.left + box.width && x < p->width; x++)
                p->at[((size_t)c * (size_t)p->height + (size_t)y) * (size_t)p->width + (size_t)x] = 0;
}

static void random_erase(const struct zt_augment_config *how, struct zt_draw draw, struct zt_picture *p) {
    struct zt_rng rng = start(draw, ERASE);
    if (unit(&rng) >= how->erase_probability)
        return;
    for (int i = 0; i < ATTEMPTS; i++) {
        double area = between(&rng, how->erase_scale[0], how->erase_scale[1]) * p->height * p->width;
        double ratio = exp(between(&rng, log(how->erase_ratio[0]), log(how->erase_ratio[1])));
        double height = rint(sqrt(area * ratio)), width = rint(sqrt(area / ratio));
        if (!(height < p->height && width < p->width))
            continue;
        int top = upto(&rng, p->height - (int)height), left = upto(&rng, p->width - (int)width);
        erase(p, (struct zt_box){ top, left, (int)height, (int)width });
        return;
    }
}

void zt_augment_erase(const struct zt_augment_config *how, struct zt_draw draw, struct zt_picture *p) {
    if (how->erase)
        random_erase(how, draw, p);
    if (how->cutout > 0) {
        struct zt_rng rng = start(draw, CUTOUT);
        int y = upto(&rng, p->height - 1), x = upto(&rng, p->width - 1);
        erase(p, (struct zt_box){ y - how->cutout / 2, x - how->cutout / 2, how->cutout, how->cutout });
    }
}
