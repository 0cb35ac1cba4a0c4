/* Skipped steps that make a run fail. */
#include "run/finite.h"

#include <check.h>
#include <stdlib.h>

static const struct zt_fp16_config dynamic = { .enabled = true }, fixed = { .enabled = true, .loss_scale = 128 },
                                   fp32 = { 0 };

/* Whether a run passes whose step i is skipped where skips(i). */
static bool passes(const struct zt_fp16_config *fp16, int steps, bool (*skips)(int step)) {
    struct zt_skips counts = { 0 };
    struct zt_err err = { 0 };
    for (int i = 0; i < steps; i++)
        zt_skips_count(&counts, skips(i), fp16);
    bool ok = zt_skips_check(&counts, fp16, &err);
    ck_assert_int_eq(ok, err.count == 0);
    ck_assert(ok || err.code == ZT_EXIT_RUN);
    return ok;
}

static bool every(int step) {
    (void)step;
    return true;
}
static bool second(int step) {
    return step % 2;
}
static bool two_of_three(int step) {
    return step % 3 > 0;
}
static bool descent(int step) {
    return step < 60;
}
static bool after_a_descent(int step) {
    return step < 60 || (step > 60 && step % 3 > 0);
}

START_TEST(more_than_half_of_the_last_hundred_fail) {
    ck_assert(!passes(&fp32, 100, every) && !passes(&fixed, 100, every) && !passes(&fp32, 1000, two_of_three));
    ck_assert(passes(&fp32, 99, every) && passes(&fp32, 1000, second));
    ck_assert(!passes(&fp32, 100, descent) && passes(&fp32, 160, descent));
}
END_TEST

START_TEST(the_descent_of_a_dynamic_scale_does_not_count) {
    ck_assert(passes(&dynamic, 100, descent) && passes(&dynamic, 1000, every));
    ck_assert(passes(&dynamic, 159, after_a_descent) && !passes(&dynamic, 160, after_a_descent));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("skips");
    TCase *tcase = tcase_create("skips");
    tcase_add_test(tcase, more_than_half_of_the_last_hundred_fail);
    tcase_add_test(tcase, the_descent_of_a_dynamic_scale_does_not_count);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
