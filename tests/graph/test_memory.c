#include "tests/suite.h"

#include "base/rng.h"
#include "graph/passes/memory.h"

#include <string.h>

/* Aborts where two that live at the same time overlap, or one lies outside the block. */
static void check_plan(const struct zt_interval *at, int count, int64_t size) {
    for (int i = 0; i < count; i++) {
        ck_assert_int_ge(at[i].offset, 0);
        ck_assert_int_eq(at[i].offset % 64, 0);
        ck_assert_int_le(at[i].offset + at[i].bytes, size);
        for (int k = 0; k < i; k++)
            ck_assert(at[i].last < at[k].first || at[k].last < at[i].first || at[i].bytes == 0 || at[k].bytes == 0 ||
                      at[i].offset + at[i].bytes <= at[k].offset || at[k].offset + at[k].bytes <= at[i].offset);
    }
}

/* Returns a lower bound: the largest sum of the intervals that live at one position. */
static int64_t lower_bound(const struct zt_interval *at, int count) {
    int64_t most = 0;
    for (int i = 0; i < count; i++) {
        int64_t now = 0;
        for (int k = 0; k < count; k++)
            if (at[k].first <= at[i].first && at[i].first <= at[k].last)
                now += (at[k].bytes + 63) / 64 * 64;
        most = now > most ? now : most;
    }
    return most;
}

START_TEST(the_worked_example_takes_192_bytes) {
    struct zt_interval at[] = { { 100, 0, 3, -1 }, { 60, 1, 2, -1 }, { 60, 3, 5, -1 } };
    ck_assert_int_eq(zt_memory_plan(at, 3), 192);
    ck_assert(at[0].offset == 0 && at[1].offset == 128 && at[2].offset == 128);
}
END_TEST

START_TEST(nothing_takes_nothing) {
    struct zt_interval none = { 0, 3, 5, -1 };
    ck_assert_int_eq(zt_memory_plan(&none, 0), 0);
    ck_assert_int_eq(zt_memory_plan(&none, 1), 0);
    check_plan(&none, 1, 0);
}
END_TEST

START_TEST(random_lives_never_overlap_and_the_peak_is_close_to_the_lower_bound) {
    enum { MOST = 300 };
    struct zt_rng rng = zt_rng_start(21, 0);
    double ratios = 0;
    int rounds = 60;
    for (int round = 0; round < rounds; round++) {
        struct zt_interval at[MOST];
        int count = 1 + (int)zt_rng_below(&rng, MOST), span = 1 + (int)zt_rng_below(&rng, 100);
        for (int i = 0; i < count; i++) {
            int first = (int)zt_rng_below(&rng, (uint64_t)count);
            at[i] = (struct zt_interval){ (int64_t)zt_rng_below(&rng, 10000), first,
                                          first + (int)zt_rng_below(&rng, (uint64_t)span), -1 };
        }
        int64_t size = zt_memory_plan(at, count), least = lower_bound(at, count);
        check_plan(at, count, size);
        ck_assert_int_ge(size, least);
        ck_assert_msg((double)size <= 1.5 * (double)least + 64, "%lld bytes where %lld would do", (long long)size,
                      (long long)least);
        ratios += (double)size / (double)(least + 1);
    }
    ck_assert_msg(ratios / rounds < 1.15, "%.3f times the lower bound on average", ratios / rounds);
}
END_TEST

/* Activations of a chain live to their place in the backward phase: the peak is their sum. */
START_TEST(a_chain_forward_and_backward_takes_no_byte_too_many) {
    enum { LAYERS = 100 };
    struct zt_interval at[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        at[i] = (struct zt_interval){ 640, i, 2 * LAYERS - i, -1 };
        at[LAYERS + i] = (struct zt_interval){ 640, LAYERS + i, LAYERS + i + 1, -1 };
    }
    int64_t size = zt_memory_plan(at, 2 * LAYERS);
    check_plan(at, 2 * LAYERS, size);
    ck_assert_int_eq(size, lower_bound(at, 2 * LAYERS));
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("memory");
    tcase_add_test(cases, the_worked_example_takes_192_bytes);
    tcase_add_test(cases, nothing_takes_nothing);
    tcase_add_test(cases, random_lives_never_overlap_and_the_peak_is_close_to_the_lower_bound);
    tcase_add_test(cases, a_chain_forward_and_backward_takes_no_byte_too_many);
    return run_suite("memory", cases, CK_FORK);
}
