// Hostile bytes as a file of CIFAR-10's binary version, all of whose samples are read.
#include "config/config.h"
#include "data/data.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct zt_want wants[] = {
        { .name = "image", .dtype = ZT_FLOAT, .shape = { 3, { 3, 32, 32 } }, .image = true },
        { .name = "target", .dtype = ZT_INT64, .below = 10, .except = -100 },
    };
    struct zt_err err = { 0 };
    struct zt_config config = { .data = { .format = "cifar10", .path = fuzz_file(data, size) } };
    struct zt_source *source = zt_source_open(&config, false, wants, 2, &err);
    fuzz_promise(source ? source->samples > 0 : err.count > 0);
    for (int64_t i = 0; source && i < source->samples; i++) {
        float image[3 * 32 * 32];
        int64_t target;
        fuzz_promise(source->format->read(source, 0, i, image, &err));
        fuzz_promise(source->format->read(source, 1, i, &target, &err) && target >= 0 && target < 10);
        for (int p = 0; p < 3 * 32 * 32; p++)
            fuzz_promise(image[p] >= 0 && image[p] <= 1);
    }
    zt_source_close(source);
    return 0;
}
