/* The tables of the shared reference folder, and the runner both suites of this folder use. */
#ifndef ZT_TESTS_OPTIM_TABLES_H
#define ZT_TESTS_OPTIM_TABLES_H

#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

/* reference/tables/NAME below $ZT_SHARED; NULL, said aloud, where that folder is absent. */
static inline cJSON *test_table(const char *name) {
    const char *shared = getenv("ZT_SHARED");
    char path[1024];
    snprintf(path, sizeof path, "%s/reference/tables/%s", shared ? shared : "../shared", name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        printf("SKIP: no %s (ZT_SHARED names the shared folder)\n", path);
        return NULL;
    }
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
