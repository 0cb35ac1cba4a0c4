// Hostile bytes as the two IDX files of mnist, all of whose samples are read. The first two bytes say how many of the
// rest are the file of labels.
#include "config/config.h"
#include "data/data.h"
#include "fuzz.h"

#include <stdlib.h>

static void read_all(const struct zt_source *source, size_t size, struct zt_err *err) {
    const size_t pixels = (size_t)zt_shape_count(&source->column[0].shape);
    float *image = malloc(pixels * sizeof *image);
    int64_t target;
    fuzz_promise(source->samples > 0 && (size_t)source->samples <= size && pixels <= size);
    for (int64_t i = 0; i < source->samples; i++) {
        fuzz_promise(zt_source_read(source, 0, (struct zt_sample){ i, 0 }, image, err));
        fuzz_promise(zt_source_read(source, 1, (struct zt_sample){ i, 0 }, &target, err) && target >= 0 && target < 10);
        for (size_t p = 0; p < pixels; p++)
            fuzz_promise(image[p] >= 0 && image[p] <= 1);
    }
    free(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct zt_want wants[] = {
        { .name = "image", .dtype = ZT_FLOAT, .shape = { .rank = -1 }, .image = true },
        { .name = "target", .dtype = ZT_INT64, .below = 10, .except = -100, .use = ZT_WANT_TARGET },
    };
    struct zt_err err = { 0 };
    if (size < 2)
        return 0;
    const size_t labels = (data[0] | (size_t)data[1] << 8) % (size - 1);
    fuzz_enter();
    fuzz_put("train-labels-idx1-ubyte", data + 2, labels);
    fuzz_put("train-images-idx3-ubyte", data + 2 + labels, size - 2 - labels);
    struct zt_config config = { .data = { .format = "mnist", .path = "." } };
    struct zt_source *source = zt_source_open(&config, false, wants, 2, &err);
    fuzz_promise(source || err.count > 0);
    if (source)
        read_all(source, size, &err);
    zt_source_close(source);
    return 0;
}
