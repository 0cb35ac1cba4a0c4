/* Evaluation of measurements by ztrain bench: quantiles, rates, efficiency, warnings, and the names of modes. */
#include "cli/bench.h"
#include "cli/html.h"
#include "tests/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct zt_bench_mode ddp, zero1, pipeline;

static void make_modes(void) {
    struct zt_err err = { 0 };
    ck_assert(zt_bench_mode(&ddp, "ddp", &err) && zt_bench_mode(&zero1, "zero1", &err) &&
              zt_bench_mode(&pipeline, "pp2-gpipe", &err));
}

static struct zt_bench_row row(const struct zt_bench_mode *mode, int ranks, int64_t batch, double *seconds, int count,
                               const char *weights) {
    struct zt_bench_row r = {
        .mode = mode, .ranks = ranks, .batch = batch, .accumulation = 1, .seconds = seconds, .count = count
    };
    snprintf(r.weights, sizeof r.weights, "%s", weights);
    return r;
}

START_TEST(a_quantile_lies_between_two_values) {
    const double values[] = { 1, 2, 4, 8 };
    ck_assert(zt_bench_quantile(values, 4, 0.5) == 3);
    ck_assert(zt_bench_quantile(values, 3, 0.5) == 2);
    ck_assert(zt_bench_quantile(values, 4, 0) == 1 && zt_bench_quantile(values, 4, 1) == 8);
    ck_assert(zt_bench_quantile(values, 4, 0.25) == 1.75);
    ck_assert(zt_bench_quantile(values, 1, 0.75) == 1);
    ck_assert(isnan(zt_bench_quantile(values, 0, 0.5)));
}
END_TEST

START_TEST(efficiency_compares_with_one_rank_at_the_same_batch) {
    double one[] = { 4, 1, 2 }, two[] = { 1.25 }, other[] = { 1 };
    struct zt_bench_row rows[3] = { row(&ddp, 2, 64, two, 1, "a"), row(&ddp, 1, 64, one, 3, "b"),
                                    row(&ddp, 2, 32, other, 1, "c") };
    zt_bench_finish(rows, 3);
    ck_assert(rows[1].median == 2 && rows[1].low == 1.5 && rows[1].high == 3 && rows[1].rate == 32);
    ck_assert(rows[1].efficiency == 1);
    ck_assert_double_eq_tol(rows[0].efficiency, 0.8, 1e-12);
    ck_assert(isnan(rows[2].efficiency));
}
END_TEST

START_TEST(a_row_that_did_not_run_is_no_baseline) {
    double two[] = { 1 };
    struct zt_bench_row rows[2] = { row(&ddp, 1, 64, NULL, 0, ""), row(&ddp, 2, 64, two, 1, "") };
    strcpy(rows[0].reason, "refused");
    zt_bench_finish(rows, 2);
    ck_assert(isnan(rows[1].efficiency) && isnan(rows[0].median));
}
END_TEST

START_TEST(weights_that_should_agree_and_do_not_are_named) {
    double s[] = { 1 };
    struct zt_text text = { 0 };
    struct zt_bench_row rows[4] = { row(&ddp, 2, 64, s, 1, "aaaa"), row(&pipeline, 2, 64, s, 1, "bbbb"),
                                    row(&zero1, 2, 64, s, 1, "aaaa"), row(&zero1, 1, 64, s, 1, "cccc") };
    zt_bench_warn(rows, 4, &text);
    ck_assert(!text.at);
    strcpy(rows[2].weights, "dddd");
    zt_bench_warn(rows, 4, &text);
    ck_assert(text.at && strstr(text.at, "ddp and zero1 on 2 ranks") && strstr(text.at, "dddd"));
    ck_assert(!strstr(text.at, "cccc") && !strstr(text.at, "pp2"));
    zt_text_finish(&text);
    rows[2].accumulation = 2; /* ZeRO 2 and 3 then add in another order */
    zt_bench_warn(rows, 4, &text);
    ck_assert(!text.at);
    rows[1].unsteady = true;
    zt_bench_warn(rows, 4, &text);
    ck_assert(text.at && strstr(text.at, "pp2-gpipe on 2 ranks"));
    zt_text_finish(&text);
}
END_TEST

START_TEST(a_mode_is_a_set_of_keys) {
    struct zt_bench_mode m;
    struct zt_err err = { 0 };
    ck_assert(zt_bench_mode(&m, "zero2", &err) && m.same_bits && !m.pipeline);
    ck_assert_str_eq(m.set[1], "zero_optimization.stage=2");
    ck_assert(zt_bench_mode(&m, "pp4", &err) && m.pipeline && !m.same_bits);
    ck_assert_str_eq(m.set[1], "pipeline.stages=4");
    ck_assert_str_eq(m.set[3], "");
    ck_assert(zt_bench_mode(&m, "pp2-zb-h1-zero1", &err));
    ck_assert_str_eq(m.set[2], "zero_optimization.stage=1");
    ck_assert_str_eq(m.set[3], "ztrain.parallel.schedule=zb-h1");
}
END_TEST

START_TEST(a_run_saves_nothing_and_the_mode_wins) {
    const char *const given[] = { "ztrain.checkpoint.every_steps=1", "zero_optimization.stage=3" };
    struct zt_options options = { .over = { .set = given, .set_count = 2 } }, laid;
    struct zt_bench bench = { .options = &options, .steps = 8 };
    struct zt_bench_mode most;
    struct zt_err err = { 0 };
    ck_assert(zt_bench_mode(&most, "pp2-1f1b-zero1", &err));
    struct zt_bench_row r = { .mode = &most, .ranks = 2, .batch = 64 };
    const char *set[2 + ZT_BENCH_EXTRA_SETS + 1] = { 0 }, *last = "past the end";
    char batch[ZT_BENCH_WORD];
    set[2 + ZT_BENCH_EXTRA_SETS] = last;
    zt_bench_overlay(&bench, &r, &laid, set, batch);
    static const char *const wanted[] = { "ztrain.checkpoint.every_steps=1",
                                          "zero_optimization.stage=3",
                                          "ztrain.parallel.mode=ddp",
                                          "pipeline.stages=2",
                                          "zero_optimization.stage=1",
                                          "ztrain.parallel.schedule=1f1b",
                                          "train_batch_size=64",
                                          "autotuning.enabled=false",
                                          "ztrain.checkpoint.every_steps=0",
                                          "ztrain.checkpoint.every_epochs=0" };
    ck_assert_int_eq(laid.over.set_count, (int)(sizeof wanted / sizeof *wanted));
    for (int i = 0; i < laid.over.set_count; i++)
        ck_assert_str_eq(laid.over.set[i], wanted[i]);
    ck_assert_ptr_eq(set[2 + ZT_BENCH_EXTRA_SETS], last);
    ck_assert(laid.over.ranks == 2 && laid.over.steps == 8);
}
END_TEST

START_TEST(what_is_no_mode_is_refused_by_name) {
    static const char *const wrong[] = { "",           "zero4",
                                         "pp",         "pp0",
                                         "pp2-",       "pp2-zero",
                                         "pp2--zero1", "pp2-1f1b-zero",
                                         "pp2x",       "pp2-'",
                                         "pp2- ",      "pp123456789",
                                         "pp2-zero1x", "pp2-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                         "pp2-foo",    "pp2-1f1b-zero4",
                                         "DDP" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct zt_bench_mode m;
        struct zt_err err = { 0 };
        ck_assert_msg(!zt_bench_mode(&m, wrong[i], &err), "%s", wrong[i]);
        ck_assert(err.code == ZT_EXIT_CONFIG && strstr(err.text[0], wrong[i]));
    }
}
END_TEST

START_TEST(text_is_escaped) {
    struct zt_text text = { 0 };
    zt_html_escape(&text, "<a href=\"x\">&'\x1b\n");
    ck_assert_str_eq(text.at, "&lt;a href=&quot;x&quot;&gt;&amp;&#39;?\n");
    zt_text_finish(&text);
}
END_TEST

static char *written(const struct zt_bench_row *rows, int count, bool tsv) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (tsv)
        zt_bench_write_tsv(rows, count, to);
    else
        zt_bench_print(rows, count, to);
    fclose(to);
    return text;
}

START_TEST(every_row_has_every_column) {
    double s[] = { 0.5 };
    struct zt_bench_row rows[2] = { row(&ddp, 1, 64, s, 1, "aaaa"), row(&zero1, 2, 0, NULL, 0, "") };
    strcpy(rows[1].reason, "no\tsuch mode");
    zt_bench_finish(rows, 2);
    char *text = written(rows, 2, true);
    int tabs = 0, lines = 0, first = 0;
    for (const char *c = text; *c; c++) {
        tabs += *c == '\t';
        if (*c != '\n')
            continue;
        first = lines++ ? first : tabs;
        ck_assert_int_eq(tabs, first);
        tabs = 0;
    }
    ck_assert_int_eq(lines, 3);
    free(text);
    text = written(rows, 2, false);
    ck_assert(strstr(text, "500.000") && strstr(text, "no\tsuch mode"));
    free(text);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("bench");
    tcase_add_checked_fixture(cases, make_modes, NULL);
    tcase_add_test(cases, a_quantile_lies_between_two_values);
    tcase_add_test(cases, efficiency_compares_with_one_rank_at_the_same_batch);
    tcase_add_test(cases, a_row_that_did_not_run_is_no_baseline);
    tcase_add_test(cases, weights_that_should_agree_and_do_not_are_named);
    tcase_add_test(cases, a_mode_is_a_set_of_keys);
    tcase_add_test(cases, a_run_saves_nothing_and_the_mode_wins);
    tcase_add_test(cases, what_is_no_mode_is_refused_by_name);
    tcase_add_test(cases, text_is_escaped);
    tcase_add_test(cases, every_row_has_every_column);
    return run_suite("bench", cases, CK_FORK);
}
