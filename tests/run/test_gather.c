/* Samples gathered on the device are those that the host decodes, bit by bit, over the emulated module: copies and
 * tables of every element size, lengths that vectors fit and others, several columns in a launch. */
#include "tests/suite.h"

#include "base/rng.h"
#include "data/column.h"
#include "device/module.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 29, ROWS = 37, COLUMNS = 26 /* more than one launch takes */ };

static struct zt_device *device;

static void begin(void) {
    struct zt_err err = { 0 };
    device = zt_module_device(getenv("ZT_MODULE"), 0, 1, &err);
    ck_assert_msg(device != NULL, "%s", err.text[0]);
}

static void end(void) {
    device->api->destroy(device);
}

/* Bytes on both sides. */
struct twin {
    unsigned char *here;
    void *there;
    size_t bytes;
};

static struct twin twin_make(size_t bytes) {
    struct zt_err err = { 0 };
    struct twin t = { calloc(bytes + 1, 1), device->api->allocate(device, bytes + 1, "a twin", &err), bytes };
    ck_assert_msg(t.here && t.there, "%s", err.text[0]);
    return t;
}

static struct twin twin_fill(size_t bytes, uint64_t key) {
    struct zt_err err = { 0 };
    struct twin t = twin_make(bytes);
    struct zt_rng rng = zt_rng_start(key, 7);
    for (size_t i = 0; i < bytes; i++)
        t.here[i] = (unsigned char)zt_rng_below(&rng, 256);
    ck_assert(device->api->to_device(device, t.there, t.here, bytes, &err));
    return t;
}

static void twin_finish(struct twin *t) {
    device->api->free(device, t->there, t->bytes + 1);
    free(t->here);
}

/* A column whose samples are `bytes` as they are kept. */
struct tried {
    struct twin kept, table, made;
    struct zt_column column;
    struct zt_stored stored;
    struct zt_gather gather;
};

static enum zt_dtype dtype_of(size_t bytes) {
    return bytes == 1 ? ZT_UINT8 : bytes == 2 ? ZT_BFLOAT16 : bytes == 4 ? ZT_FLOAT : ZT_INT64;
}

/* each: bytes of an element, 0: a copy. */
static struct tried try_make(size_t bytes, int planes, size_t each, const struct twin *index) {
    const size_t sample = each ? bytes * each : bytes;
    struct tried t = { .kept = twin_fill(SAMPLES * bytes, bytes + each), .made = twin_make(ROWS * sample) };
    t.stored.bytes = bytes;
    if (each) {
        t.table = twin_fill((size_t)planes * ZT_LEVELS * each, each);
        t.stored.table = t.table.here;
        t.stored.planes = planes;
    }
    t.column.dtype = dtype_of(each);
    t.column.sample_bytes = sample;
    t.gather = (struct zt_gather){ .to = t.made.there,
                                   .from = t.kept.there,
                                   .table = t.table.there,
                                   .index = index->there,
                                   .rows = ROWS,
                                   .bytes = bytes,
                                   .planes = (uint32_t)t.stored.planes,
                                   .element_bytes = (uint32_t)each };
    return t;
}

static void try_check(struct tried *t, const int64_t *index) {
    struct zt_err err = { 0 };
    const size_t sample = t->column.sample_bytes;
    unsigned char *wanted = malloc(sample + 1);
    ck_assert(device->api->to_host(device, t->made.here, t->made.there, t->made.bytes, &err));
    ck_assert(device->api->synchronize(device, &err));
    for (int64_t row = 0; row < t->gather.rows; row++) {
        zt_column_decode(&t->column, &t->stored, t->kept.here + (size_t)index[row] * t->stored.bytes, wanted);
        ck_assert_msg(memcmp(wanted, t->made.here + (size_t)row * sample, sample) == 0,
                      "%zu bytes in %d planes of elements of %u bytes: row %lld", t->stored.bytes, t->stored.planes,
                      t->gather.element_bytes, (long long)row);
    }
    free(wanted);
}

static void try_finish(struct tried *t) {
    twin_finish(&t->kept);
    twin_finish(&t->made);
    if (t->table.there)
        twin_finish(&t->table);
}

static struct twin make_index(void) {
    struct zt_err err = { 0 };
    struct twin t = twin_make(ROWS * sizeof(int64_t));
    int64_t *index = (int64_t *)(void *)t.here;
    for (int64_t i = 0; i < ROWS; i++)
        index[i] = i * 11 % SAMPLES;
    ck_assert(device->api->to_device(device, t.there, index, t.bytes, &err));
    return t;
}

static void run(struct tried *tried, int count, const int64_t *index) {
    struct zt_gather columns[COLUMNS];
    struct zt_err err = { 0 };
    for (int i = 0; i < count; i++)
        columns[i] = tried[i].gather;
    ck_assert_msg(device->module->gather(device, columns, count, &err), "%s", err.text[0]);
    for (int i = 0; i < count; i++)
        try_check(&tried[i], index);
}

static const struct {
    size_t bytes, each;
    int planes;
} shapes[] = { { 16, 0, 0 },   { 48, 0, 0 },   { 4, 0, 0 },    { 20, 0, 0 }, { 7, 0, 0 }, { 1, 0, 0 },
               { 0, 0, 0 },    { 1, 1, 1 },    { 1, 8, 1 },    { 12, 4, 3 }, { 9, 4, 3 }, { 9, 2, 1 },
               { 3072, 4, 3 }, { 3072, 2, 3 }, { 3072, 8, 3 }, { 8, 1, 2 },  { 6, 8, 2 }, { 28, 4, 1 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

START_TEST(a_column_is_what_the_host_makes_of_it) {
    struct twin index = make_index();
    struct tried t = try_make(shapes[_i].bytes, shapes[_i].planes, shapes[_i].each, &index);
    run(&t, 1, (int64_t *)(void *)index.here);
    try_finish(&t);
    twin_finish(&index);
}
END_TEST

START_TEST(columns_of_all_kinds_are_made_together) {
    struct twin index = make_index();
    struct tried tried[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        const int k = i % SHAPES;
        tried[i] = try_make(shapes[k].bytes, shapes[k].planes, shapes[k].each, &index);
        if (i % 7 == 2)
            tried[i].gather.rows = 0;
    }
    run(tried, COLUMNS, (int64_t *)(void *)index.here);
    for (int i = 0; i < COLUMNS; i++)
        try_finish(&tried[i]);
    twin_finish(&index);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("gather");
    tcase_add_checked_fixture(test, begin, end);
    tcase_add_loop_test(test, a_column_is_what_the_host_makes_of_it, 0, SHAPES);
    tcase_add_test(test, columns_of_all_kinds_are_made_together);
    return run_suite("gpu-gather", test, CK_NOFORK);
}
