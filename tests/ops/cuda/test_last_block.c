/* The last block of a grid finishes what all of them did (is_last_block of base/block.cuh): the same bits whichever it
 * is, and counters that are zero again. */
#include "tests/ops/cuda/last_block.h"
#include "tests/suite.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 7, HEIGHT = 5, EACH = 300, ALL = WIDTH * HEIGHT * EACH };

static unsigned arrived[1 + HEIGHT];

/* The sum; `last` is the block of each row that is expected to come last. */
static double run(int width, int height, int last) {
    static double from[ALL], parts[WIDTH * HEIGHT], rows[HEIGHT];
    static int lasts[HEIGHT];
    double sum = NAN;
    const struct last_block x = { width, height, EACH, from, parts, rows, &sum, lasts, arrived };
    for (int i = 0; i < ALL; i++)
        from[i] = exp(20 * sin(i)); /* of sizes so different that the order of the sum shows */
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        parts[i] = NAN;
    ck_assert_int_eq(launch_last_block(NULL, &x), 0);
    for (int i = 0; i <= HEIGHT; i++)
        ck_assert_uint_eq(arrived[i], 0);
    for (int i = 0; i < height; i++)
        ck_assert_int_eq(lasts[i], last);
    return sum;
}

START_TEST(the_last_block_adds_in_an_order_of_its_own) {
    const double forwards = run(WIDTH, HEIGHT, WIDTH - 1), again = run(WIDTH, HEIGHT, WIDTH - 1);
    setenv("ZT_EMULATED_BACKWARDS", "1", 1);
    const double backwards = run(WIDTH, HEIGHT, 0);
    unsetenv("ZT_EMULATED_BACKWARDS");
    ck_assert(isfinite(forwards) && forwards == again && forwards == backwards);
}
END_TEST

START_TEST(one_block_is_the_last) {
    ck_assert(isfinite(run(1, 1, 0)) && isfinite(run(1, HEIGHT, 0)) && isfinite(run(WIDTH, 1, WIDTH - 1)));
}
END_TEST

int main(void) {
    TCase *test = tcase_create("last_block");
    tcase_add_test(test, the_last_block_adds_in_an_order_of_its_own);
    tcase_add_test(test, one_block_is_the_last);
    return run_suite("last_block", test, CK_NOFORK);
}
