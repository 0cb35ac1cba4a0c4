// Hostile bytes as a table, with a header and without: whatever opens has numbers in every row.
#include "config/config.h"
#include "data/data.h"
#include "fuzz.h"

#include <stdlib.h>

/* As src/data/csv.c has them. */
struct params {
    bool header;
    const char *delimiter;
    struct zt_texts columns, target_columns;
};

static void read_table(const char *path, size_t size, struct params *params) {
    static const struct zt_want wants[] = {
        { .name = "x", .dtype = ZT_FLOAT, .shape = { .rank = -1 } },
        { .name = "target", .dtype = ZT_INT64, .below = 10, .except = -100, .use = ZT_WANT_TARGET },
    };
    struct zt_err err = { 0 };
    struct zt_config config = { .data = { .format = "csv", .path = path, .params = params } };
    struct zt_source *source = zt_source_open(&config, false, wants, 2, &err);
    fuzz_promise(source ? source->samples > 0 && (size_t)source->samples <= size : err.count > 0);
    float *x = source ? malloc(source->column[0].sample_bytes + 1) : NULL;
    for (int64_t i = 0; source && i < source->samples; i++) {
        int64_t target;
        fuzz_promise(zt_source_read(source, 0, (struct zt_sample){ i, 0 }, x, &err));
        fuzz_promise(zt_source_read(source, 1, (struct zt_sample){ i, 0 }, &target, &err));
        fuzz_promise((target >= 0 && target < 10) || target == -100);
    }
    free(x);
    zt_source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file(data, size);
    read_table(path, size, &(struct params){ .header = true, .delimiter = "," });
    read_table(path, size, &(struct params){ .header = false, .delimiter = ";" });
    return 0;
}
