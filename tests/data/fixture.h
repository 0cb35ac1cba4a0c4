/* Shared by the suites of this folder: reference files, scratch files, arrays as npz files, checks of messages. */
#ifndef ZT_TESTS_DATA_FIXTURE_H
#define ZT_TESTS_DATA_FIXTURE_H

#include "data/data.h"
#include "data/npz.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path of `file` of tests/reference, whose folder $ZT_REFERENCE names. Returns `to`. */
static inline const char *reference_path(char to[1024], const char *file) {
    const char *reference = getenv("ZT_REFERENCE");
    snprintf(to, 1024, "%s/%s", reference ? reference : "tests/reference", file);
    return to;
}

/* A scratch file in the current folder; the test removes it. */
static inline const char *scratch(char to[64]) {
    strcpy(to, "scratch-XXXXXX");
    int fd = mkstemp(to);
    ck_assert_int_ge(fd, 0);
    close(fd);
    return to;
}

/* A new file each time: ext4 writes at once what replaces the contents of one. */
static inline void write_bytes(const char *path, const void *bytes, size_t size) {
    unlink(path);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static inline unsigned char *read_bytes(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size);
    ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static inline struct zt_config npz_config(const char *path) {
    return (struct zt_config){ .data = { .format = "npz", .path = path } };
}

/* The problem reported first mentions every word of the NULL-terminated list. */
static inline void check_mentions(const struct zt_err *err, const char *const *words) {
    ck_assert_int_ge(err->count, 1);
    for (; *words; words++)
        ck_assert_msg(strstr(err->text[0], *words), "\"%s\" does not mention \"%s\"", err->text[0], *words);
}
#define MENTIONS(err, ...) check_mentions(err, (const char *const[]){ __VA_ARGS__, NULL })

static inline int test_run(const char *name, TCase *cases) {
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
