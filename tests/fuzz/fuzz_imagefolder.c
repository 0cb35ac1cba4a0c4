// Hostile bytes as a JPEG or PNG file of a class folder, read as it is and with every change of augmentation.
#include "config/config.h"
#include "data/data.h"
#include "fuzz.h"

#include <sys/stat.h>

enum { SIDE = 12, PIXELS = 3 * SIDE * SIDE };

static void read_folder(const struct zt_augment_config *augment) {
    static const struct zt_want wants[] = {
        { .name = "image", .dtype = ZT_FLOAT, .shape = { 3, { 3, SIDE, SIDE } }, .image = true },
        { .name = "target", .dtype = ZT_INT64, .below = 10, .except = -100, .use = ZT_WANT_TARGET },
    };
    struct zt_err err = { 0 };
    struct zt_config config = { .data = { .format = "imagefolder", .path = "classes", .augment = *augment } };
    struct zt_source *source = zt_source_open(&config, false, wants, 2, &err);
    float image[PIXELS];
    fuzz_promise(source && source->samples == 1);
    const bool ok = zt_source_read(source, 0, (struct zt_sample){ 0, 0 }, image, &err);
    fuzz_promise(ok || err.count > 0);
    for (int p = 0; ok && p < PIXELS; p++)
        fuzz_promise(image[p] >= -1e-5f && image[p] <= 1 + 1e-5f);
    zt_source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct zt_augment_config none, crop = { .random_crop = true, .padding = 3, .horizontal_flip = 0.5 },
                                                resized = { .resized_crop = true,
                                                            .crop_scale = { 0.1, 1 },
                                                            .crop_ratio = { 0.5, 2 },
                                                            .brightness = 0.5,
                                                            .contrast = 0.5,
                                                            .saturation = 0.5,
                                                            .hue = 0.5,
                                                            .cutout = 3 };
    fuzz_enter();
    mkdir("classes", 0700);
    mkdir("classes/a", 0700);
    fuzz_put("classes/a/0.jpg", data, size);
    read_folder(&none);
    read_folder(&crop);
    read_folder(&resized);
    return 0;
}
