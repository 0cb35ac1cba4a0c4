// Hostile bytes as a stream of tokens, raw and behind a header: each target is the next token.
#include "config/config.h"
#include "data/data.h"
#include "fuzz.h"

enum { LENGTH = 5 };

/* As src/data/tokens.c has them. */
struct params {
    int wide;
    int64_t length;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct zt_want wants[] = {
        { .name = "ids", .dtype = ZT_INT64, .shape = { 1, { LENGTH } } },
        { .name = "target", .dtype = ZT_INT64, .shape = { .rank = -1 }, .below = 70000, .use = ZT_WANT_TARGET },
    };
    struct zt_err err = { 0 };
    struct params params = { .wide = size % 2 };
    struct zt_config config = { .data = { .format = "tokens", .path = fuzz_file(data, size), .params = &params } };
    struct zt_source *source = zt_source_open(&config, false, wants, 2, &err);
    fuzz_promise(source ? source->samples > 0 && (size_t)source->samples <= size : err.count > 0);
    for (int64_t i = 0; source && i < source->samples; i++) {
        int64_t ids[LENGTH], target[LENGTH];
        fuzz_promise(zt_source_read(source, 0, (struct zt_sample){ i, 0 }, ids, &err));
        if (!zt_source_read(source, 1, (struct zt_sample){ i, 0 }, target, &err)) {
            fuzz_promise(err.count > 0);
            continue;
        }
        for (int t = 0; t + 1 < LENGTH; t++)
            fuzz_promise(target[t] == ids[t + 1] && target[t] < 70000);
    }
    zt_source_close(source);
    return 0;
}
