#include "parallel/partition/grid.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(ranks_lie_row_major_in_pipe_and_data) {
    for (int stages = 1; stages <= 4; stages++)
        for (int data = 1; data <= 4; data++)
            for (int rank = 0; rank < stages * data; rank++) {
                struct zt_grid g;
                struct zt_err err = { 0 };
                ck_assert(zt_grid_make(stages * data, stages, rank, &g, &err));
                ck_assert_int_eq(g.stage * data + g.data_rank, rank);
                ck_assert_int_eq(zt_grid_rank(&g, g.stage, g.data_rank), rank);
                ck_assert_int_eq(g.data, data);
                ck_assert_int_eq(zt_grid_next(&g), g.stage + 1 < stages ? rank + data : -1);
                ck_assert_int_eq(zt_grid_previous(&g), g.stage > 0 ? rank - data : -1);
            }
}
END_TEST

START_TEST(stages_that_do_not_divide_the_ranks_are_refused_with_both_numbers) {
    struct zt_grid g;
    struct zt_err err = { 0 };
    ck_assert(!zt_grid_make(6, 4, 0, &g, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "6 ranks"));
    ck_assert_ptr_nonnull(strstr(err.text[0], "4 pipeline stages"));
    ck_assert_int_eq(err.code, ZT_EXIT_CONFIG);
    ck_assert(!zt_grid_make(0, 1, 0, &g, &err));
    ck_assert(!zt_grid_make(4, 0, 0, &g, &err));
    ck_assert(!zt_grid_make(4, 2, 4, &g, &err));
    ck_assert(!zt_grid_make(4, 2, -1, &g, &err));
}
END_TEST

START_TEST(there_is_no_rank_outside_the_grid) {
    struct zt_grid g;
    struct zt_err err = { 0 };
    ck_assert(zt_grid_make(6, 3, 5, &g, &err));
    ck_assert_int_eq(zt_grid_rank(&g, 3, 0), -1);
    ck_assert_int_eq(zt_grid_rank(&g, 0, 2), -1);
    ck_assert_int_eq(zt_grid_rank(&g, -1, 0), -1);
    ck_assert_int_eq(zt_grid_rank(&g, 0, -1), -1);
}
END_TEST

START_TEST(a_place_names_only_the_axes_there_are) {
    const struct {
        int world, stages, rank;
        const char *text;
    } places[] = {
        { 1, 1, 0, "" },
        { 4, 1, 3, "rank 3" },
        { 4, 4, 3, "rank 3 (stage 3)" },
        { 6, 3, 3, "rank 3 (stage 1, data rank 1)" },
    };
    for (int i = 0; i < 4; i++) {
        struct zt_grid g;
        struct zt_err err = { 0 };
        char text[sizeof err.place];
        ck_assert(zt_grid_make(places[i].world, places[i].stages, places[i].rank, &g, &err));
        zt_grid_place(&g, text, sizeof text);
        ck_assert_str_eq(text, places[i].text);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grid");
    TCase *tc = tcase_create("grid");
    tcase_add_test(tc, ranks_lie_row_major_in_pipe_and_data);
    tcase_add_test(tc, stages_that_do_not_divide_the_ranks_are_refused_with_both_numbers);
    tcase_add_test(tc, there_is_no_rank_outside_the_grid);
    tcase_add_test(tc, a_place_names_only_the_axes_there_are);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
