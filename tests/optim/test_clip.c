/* The norm: one fixed order of summation, whatever the CPU and whatever cuts the slice. */
#include "base/clones.h" /* first: see loops_are_compiled_for_several_instruction_sets */

#include "optim/optim.h"
#include "tables.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { COUNT = 5 * ZT_NORM_BLOCK + 1000 };
static float x[COUNT];

static void fill(void) {
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)sin(i * 1.7) * (float)(1 + i % 13);
}

/* The definition in plain words: element i of a block belongs to lane i mod 16, lanes are added in a tree. */
static double block_as_defined(const float *at, int count) {
    double lane[16] = { 0 };
    for (int i = 0; i < count; i++)
        lane[i % 16] += (double)at[i] * (double)at[i];
    for (int half = 8; half; half /= 2)
        for (int k = 0; k < half; k++)
            lane[k] += lane[k + half];
    return lane[0];
}

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...)    TEXT_OF(__VA_ARGS__)

/* Also where no header of the C library, which says that it is glibc, was included before clones.h. */
START_TEST(loops_are_compiled_for_several_instruction_sets) {
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(ZT_ONE_CLONE)
    ck_assert_ptr_nonnull(strstr(TEXT(ZT_CLONES), "avx512f"));
#endif
}
END_TEST

START_TEST(a_sum_of_squares_adds_in_the_defined_order) {
    fill();
    for (int count = 0; count <= ZT_NORM_BLOCK; count += count < 100 ? 1 : 333)
        ck_assert_msg(zt_sum_squares(x, count) == block_as_defined(x, count), "%d elements", count);
}
END_TEST

START_TEST(a_sum_of_squares_is_the_sum_of_its_blocks) {
    fill();
    double sum = 0, exact = 0;
    for (int at = 0; at < COUNT; at += ZT_NORM_BLOCK)
        sum += zt_sum_squares(x + at, COUNT - at < ZT_NORM_BLOCK ? COUNT - at : ZT_NORM_BLOCK);
    for (int i = 0; i < COUNT; i++)
        exact += (double)x[i] * (double)x[i];
    ck_assert(zt_sum_squares(x, COUNT) == sum);
    ck_assert(fabs(sum - exact) < 1e-12 * exact);
}
END_TEST

START_TEST(clipping_only_ever_shrinks) {
    ck_assert(zt_clip_factor(100, 0) == 1);
    ck_assert(zt_clip_factor(0.5, 1) == 1);
    ck_assert(zt_clip_factor(0, 1) == 1);
    ck_assert(fabs(zt_clip_factor(4, 1) - 1 / (4 + 1e-6)) < 1e-15);
    ck_assert(zt_clip_factor(INFINITY, 1) == 0);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("clip");
    tcase_add_test(cases, loops_are_compiled_for_several_instruction_sets);
    tcase_add_test(cases, a_sum_of_squares_adds_in_the_defined_order);
    tcase_add_test(cases, a_sum_of_squares_is_the_sum_of_its_blocks);
    tcase_add_test(cases, clipping_only_ever_shrinks);
    return test_run("clip", cases);
}
