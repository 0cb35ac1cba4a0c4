#include "tests/suite.h"

#include "base/rng.h"
#include "tests/normal.h"

#include <math.h>

/* Random123's known answers of philox4x32 with 10 rounds (its file kat_vectors): counter, key, words. */
START_TEST(blocks_are_the_published_ones) {
    static const struct {
        uint64_t counter, stream, key;
        uint32_t words[4];
    } known[] = {
        { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { UINT64_C(0x85a308d3243f6a88),
          UINT64_C(0x0370734413198a2e),
          UINT64_C(0x299f31d0a4093822),
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        zt_rng_block(known[i].key, known[i].stream, known[i].counter, out);
        for (int k = 0; k < 4; k++)
            ck_assert_uint_eq(out[k], known[i].words[k]);
    }
}
END_TEST

START_TEST(a_stream_is_its_blocks_one_after_the_other) {
    struct zt_rng rng = zt_rng_start(7, 9);
    for (uint64_t b = 0; b < 5; b++) {
        uint32_t block[4];
        zt_rng_block(7, 9, b, block);
        for (int k = 0; k < 4; k++)
            ck_assert_uint_eq(zt_rng_u32(&rng), block[k]);
    }
}
END_TEST

START_TEST(keys_differ_in_every_part) {
    uint64_t key = zt_rng_key(1, 2, 3, 4);
    ck_assert(key == zt_rng_key(1, 2, 3, 4));
    ck_assert(key != zt_rng_key(2, 2, 3, 4) && key != zt_rng_key(1, 3, 3, 4) && key != zt_rng_key(1, 2, 4, 4));
    ck_assert(key != zt_rng_key(1, 2, 3, 5) && key != zt_rng_key(2, 1, 3, 4) && key != zt_rng_key(1, 2, 4, 3));
}
END_TEST

START_TEST(numbers_below_n_stay_below_it_and_reach_all) {
    static const uint64_t limits[] = { 1, 2, 3, 10, 1000, UINT64_C(1) << 63, UINT64_MAX };
    struct zt_rng rng = zt_rng_start(1, 1);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int k = 0; k < 1000; k++)
            ck_assert(zt_rng_below(&rng, limits[i]) < limits[i]);
    int count[10] = { 0 };
    for (int k = 0; k < 10000; k++)
        count[zt_rng_below(&rng, 10)]++;
    for (int d = 0; d < 10; d++) /* 5 standard deviations of 30 */
        ck_assert_int_lt(abs(count[d] - 1000), 150);
}
END_TEST

START_TEST(uniform_and_normal_numbers_have_their_moments) {
    enum { DRAWS = 100000 };
    struct zt_rng rng = zt_rng_start(3, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < DRAWS; i++) {
        float u = zt_rng_uniform(&rng);
        ck_assert(u >= 0 && u < 1);
        sum += (double)u;
    }
    ck_assert_double_eq_tol(sum / DRAWS, 0.5, 0.005);
    sum = 0;
    struct normal normal = normal_start(3, 0);
    for (int i = 0; i < DRAWS; i++) {
        double x = (double)normal_next(&normal);
        ck_assert(isfinite(x));
        sum += x;
        squares += x * x;
    }
    ck_assert_double_eq_tol(sum / DRAWS, 0, 0.015);
    ck_assert_double_eq_tol(squares / DRAWS, 1, 0.025);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("rng");
    tcase_add_test(cases, blocks_are_the_published_ones);
    tcase_add_test(cases, a_stream_is_its_blocks_one_after_the_other);
    tcase_add_test(cases, keys_differ_in_every_part);
    tcase_add_test(cases, numbers_below_n_stay_below_it_and_reach_all);
    tcase_add_test(cases, uniform_and_normal_numbers_have_their_moments);
    return run_suite("rng", cases, CK_FORK);
}
