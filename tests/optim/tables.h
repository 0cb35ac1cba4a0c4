/* The tables of tests/reference, and the runner both suites of this folder use. */
#ifndef ZT_TESTS_OPTIM_TABLES_H
#define ZT_TESTS_OPTIM_TABLES_H

#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

/* The table NAME of tests/reference, whose folder $ZT_REFERENCE names. */
static inline cJSON *test_table(const char *name) {
    const char *reference = getenv("ZT_REFERENCE");
    char path[1024];
    snprintf(path, sizeof path, "%s/tables/%s", reference ? reference : "tests/reference", name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s is not there: ZT_REFERENCE names tests/reference", path);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(size + 1, 1);
    ck_assert_uint_eq(fread(text, 1, size, file), size);
    fclose(file);
    cJSON *table = cJSON_Parse(text);
    free(text);
    ck_assert_ptr_nonnull(table);
    return table;
}

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
