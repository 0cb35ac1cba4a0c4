/* Runs one test case list as a suite of its own: what every test program's main ends with. */
#ifndef ZT_TESTS_SUITE_H
#define ZT_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* `fork` CK_NOFORK where the tests compute with OpenMP threads, whose library does not survive a fork. */
static inline int run_suite(const char *name, TCase *cases, enum fork_status fork) {
    Suite *suite = suite_create(name);
    tcase_set_timeout(cases, 120);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    if (fork == CK_NOFORK)
        srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
