#include "run/watchdog.h"

#include "tests/suite.h"

static const int64_t second = 1000000000;

START_TEST(a_step_is_overdue_at_ten_times_the_median) {
    int64_t median = 0, took[] = { 2 * second, second, 60 * second, 2 * second, 3 * second };
    ck_assert(!zt_watchdog_overdue(19 * second, took, 5, &median));
    ck_assert_int_eq(median, 2 * second);
    ck_assert(zt_watchdog_overdue(31 * second, took, 5, &median));
}
END_TEST

START_TEST(short_steps_and_first_steps_are_not) {
    int64_t median, took[] = { second / 1000, second / 1000, second / 1000, second / 1000, second / 1000 };
    ck_assert(!zt_watchdog_overdue(9 * second, took, 5, &median));
    ck_assert(zt_watchdog_overdue(11 * second, took, 5, &median));
    ck_assert(!zt_watchdog_overdue(1000 * second, took, 4, &median));
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("watchdog");
    tcase_add_test(tc, a_step_is_overdue_at_ten_times_the_median);
    tcase_add_test(tc, short_steps_and_first_steps_are_not);
    return run_suite("watchdog", tc, CK_FORK);
}
