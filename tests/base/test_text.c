#include "tests/suite.h"

#include "base/rng.h"
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

/* The definition, in exponential time. */
static bool matches(const char *pattern, const char *text) {
    if (!*pattern)
        return !*text;
    if (*pattern == '*')
        return matches(pattern + 1, text) || (*text && matches(pattern, text + 1));
    return *text && (*pattern == '?' || *pattern == *text) && matches(pattern + 1, text + 1);
}

START_TEST(patterns_match_as_defined) {
    ck_assert(zt_glob("*", "") && zt_glob("", "") && !zt_glob("", "a") && !zt_glob("?", ""));
    ck_assert(zt_glob("*.bias", "encoder.0.bias") && !zt_glob("*.bias", "encoder.0.bias2"));
    struct zt_rng rng = zt_rng_start(5, 5);
    for (int round = 0; round < 200000; round++) {
        char pattern[8], text[9];
        int n = (int)zt_rng_below(&rng, 8), m = (int)zt_rng_below(&rng, 9);
        for (int i = 0; i < n; i++)
            pattern[i] = "ab?*"[zt_rng_below(&rng, 4)];
        for (int i = 0; i < m; i++)
            text[i] = "ab."[zt_rng_below(&rng, 3)];
        pattern[n] = text[m] = 0;
        ck_assert_msg(zt_glob(pattern, text) == matches(pattern, text), "\"%s\" \"%s\"", pattern, text);
    }
}
END_TEST

START_TEST(many_stars_do_not_take_for_ever) {
    char pattern[201], text[4001];
    for (int i = 0; i < 200; i++)
        pattern[i] = i % 2 ? 'a' : '*';
    pattern[200] = 0;
    memset(text, 'a', 4000);
    text[4000] = 0;
    ck_assert(zt_glob(pattern, text));
    pattern[199] = 'b';
    ck_assert(!zt_glob(pattern, text));
}
END_TEST

START_TEST(the_edit_distance_counts_inserts_deletes_replacements_and_swaps) {
    static const struct {
        const char *a, *b;
        int distance;
    } known[] = { { "", "", 0 },           { "", "abc", 3 },        { "kitten", "sitting", 3 },
                  { "stage", "stage", 0 }, { "stgae", "stage", 1 }, { "Stage", "stAGE", 0 },
                  { "ca", "abc", 3 },      { "lr", "beta", 4 },     { "weigth_decay", "weight_decay", 1 } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ck_assert_int_eq(zt_edit_distance(known[i].a, known[i].b), known[i].distance);
        ck_assert_int_eq(zt_edit_distance(known[i].b, known[i].a), known[i].distance);
    }
    char huge[1000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    ck_assert_int_ge(zt_edit_distance(huge, "x"), 63);
}
END_TEST

START_TEST(a_growing_text_is_the_sum_of_its_parts) {
    struct zt_text text = { 0 };
    zt_text_add(&text, "%s", "");
    for (int i = 0; i < 1000; i++) {
        zt_text_add(&text, "%d,", i % 10);
        zt_text_add_bytes(&text, "x\0y", 3);
    }
    ck_assert_uint_eq(text.length, 5000);
    ck_assert_int_eq(text.at[5000], 0);
    for (int i = 0; i < 1000; i++)
        ck_assert(text.at[5 * i] == '0' + i % 10 && memcmp(text.at + 5 * i + 1, ",x\0y", 4) == 0);
    zt_text_finish(&text);
    ck_assert_ptr_null(text.at);
}
END_TEST

START_TEST(of_a_long_text_the_end_is_kept) {
    char all[400] = "", kept[8] = "";
    for (int count = 0; count < 20; count++) {
        size_t before = strlen(all), n = before + (size_t)count;
        memset(all + before, 'a' + count, (size_t)count);
        zt_text_keep_end(kept, sizeof kept, all + before, (size_t)count);
        ck_assert_str_eq(kept, n < sizeof kept ? all : all + n - (sizeof kept - 1));
    }
}
END_TEST

START_TEST(a_number_is_digits_alone_and_fits) {
    static const struct {
        const char *text;
        int64_t number;
    } known[] = { { "0", 0 },
                  { "-0", 0 },
                  { "007", 7 },
                  { "-12", -12 },
                  { "9223372036854775807", INT64_MAX },
                  { "-9223372036854775807", -INT64_MAX } };
    static const char *const wrong[] = { "",    "-",   "--1", "+1",  " 1",
                                         "1 ",  "1.",  "1e3", "0x1", "9223372036854775808",
                                         "1_0", "\t1", "1,2", "-a",  "18446744073709551617",
                                         "x",   "1\n", "1-",  "/",   "99999999999999999999999" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int64_t number = 99;
        ck_assert_msg(zt_text_number(known[i].text, &number) && number == known[i].number, "\"%s\"", known[i].text);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t number = 99;
        ck_assert_msg(!zt_text_number(wrong[i], &number) && number == 99, "\"%s\"", wrong[i]);
    }
}
END_TEST

START_TEST(bytes_are_told_in_the_unit_that_fits) {
    static const struct {
        double bytes;
        const char *text;
    } known[] = { { 0, "0 B" },           { 999, "999 B" },    { 1000, "1.0 KB" },    { 1500000, "1.5 MB" },
                  { 99.94e6, "99.9 MB" }, { 123e6, "123 MB" }, { 999.6e6, "1.0 GB" }, { 2e15, "2.0 PB" } };
    char to[32];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert_str_eq(zt_format_bytes(to, known[i].bytes), known[i].text);
    zt_format_bytes(to, 1e300);
}
END_TEST

START_TEST(a_number_has_the_digits_that_read_back) {
    static const struct {
        double value;
        const char *text;
    } cases[] = { { 4294967296, "4294967296" },
                  { 0.1, "0.1" },
                  { 1e300, "1e+300" },
                  { 1.0 / 3, "0.3333333333333333" },
                  { 0, "0" } };
    char text[ZT_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(zt_format_number(text, cases[i].value), cases[i].text);
}
END_TEST

START_TEST(a_text_ends_with_itself_and_with_nothing) {
    ck_assert(zt_text_begins("w_u", "w_") && zt_text_begins("w_u", "w_u") && zt_text_begins("", ""));
    ck_assert(!zt_text_begins("w_", "w_u") && !zt_text_begins("xw_", "w_"));
    ck_assert(zt_text_ends("bn.running_var", "running_var"));
    ck_assert(zt_text_ends("w_u", "w_u") && zt_text_ends("w_u", "") && zt_text_ends("", ""));
    ck_assert(!zt_text_ends("_u", "w_u") && !zt_text_ends("w_u", "_v") && !zt_text_ends("w_u.x", "w_u"));
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("text");
    tcase_add_test(cases, patterns_match_as_defined);
    tcase_add_test(cases, many_stars_do_not_take_for_ever);
    tcase_add_test(cases, the_edit_distance_counts_inserts_deletes_replacements_and_swaps);
    tcase_add_test(cases, a_growing_text_is_the_sum_of_its_parts);
    tcase_add_test(cases, of_a_long_text_the_end_is_kept);
    tcase_add_test(cases, a_number_is_digits_alone_and_fits);
    tcase_add_test(cases, bytes_are_told_in_the_unit_that_fits);
    tcase_add_test(cases, a_number_has_the_digits_that_read_back);
    tcase_add_test(cases, a_text_ends_with_itself_and_with_nothing);
    return run_suite("text", cases, CK_FORK);
}
