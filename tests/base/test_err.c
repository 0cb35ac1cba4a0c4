#include "tests/suite.h"

#include "base/err.h"
#include "base/show.h"

#include <stdlib.h>
#include <string.h>

enum { PRINTED = 1 << 15 };

static struct zt_err err;

/* Returns the output of zt_err_print(); free with free(). */
static char *printed(void) {
    char *text = calloc(1, PRINTED);
    FILE *to = fmemopen(text, PRINTED - 1, "w");
    zt_err_print(&err, to);
    fclose(to);
    return text;
}

START_TEST(the_first_problem_gives_the_code_and_ten_keep_their_text) {
    ck_assert(!zt_fail(&err, ZT_EXIT_MODEL, "node %d", 0));
    for (int i = 1; i < 14; i++)
        zt_fail(&err, ZT_EXIT_DATA, "node %d", i);
    ck_assert_int_eq(err.code, ZT_EXIT_MODEL);
    char *text = printed();
    ck_assert_ptr_nonnull(strstr(text, "ztrain: error: node 9\n"));
    ck_assert_ptr_null(strstr(text, "node 10"));
    ck_assert_ptr_nonnull(strstr(text, "ztrain: error: and 4 more\n"));
    free(text);
}
END_TEST

START_TEST(a_hint_follows_its_problem) {
    zt_hint(&err, "of nothing");
    zt_fail(&err, ZT_EXIT_CONFIG, "one");
    zt_hint(&err, "do this");
    zt_fail(&err, ZT_EXIT_CONFIG, "two");
    char *text = printed();
    ck_assert_str_eq(text, "ztrain: error: one\nhint: do this\nztrain: error: two\n");
    free(text);
}
END_TEST

START_TEST(a_prefix_is_put_before_the_problems_from_an_index_on) {
    zt_fail(&err, ZT_EXIT_CONFIG, "one");
    zt_fail(&err, ZT_EXIT_CONFIG, "two");
    zt_err_within(&err, 1, "%s.onnx", "m");
    ck_assert_str_eq(err.text[0], "one");
    ck_assert_str_eq(err.text[1], "m.onnx: two");
    snprintf(err.place, sizeof err.place, "rank 1");
    char *text = printed();
    ck_assert_ptr_nonnull(strstr(text, "ztrain: error: rank 1: m.onnx: two\n"));
    free(text);
}
END_TEST

START_TEST(texts_of_any_length_stay_inside_and_on_one_line) {
    char *huge = malloc(5000);
    for (int length = 470; length < 500; length++) {
        memset(huge, 'a', 5000);
        huge[length] = 0;
        err = (struct zt_err){ 0 };
        zt_fail(&err, ZT_EXIT_MODEL, "%s", huge);
        zt_err_within(&err, 0, "%s", huge);
        zt_err_within(&err, 0, "\n\x1b[31m");
        ck_assert_uint_lt(strlen(err.text[0]), ZT_ERR_TEXT);
        ck_assert_ptr_null(strpbrk(err.text[0], "\n\x1b"));
    }
    free(huge);
}
END_TEST

/* A message begins with where and ends with what is wrong: neither goes missing beside a long name. */
START_TEST(of_a_long_text_the_middle_is_left_out) {
    char name[4000];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    zt_fail(&err, ZT_EXIT_CONFIG, "--set %s: unknown key", name);
    ck_assert(strncmp(err.text[0], "--set aaaa", 10) == 0 && strstr(err.text[0], "aaa...aaa") &&
              strstr(err.text[0], "aaa: unknown key"));
    zt_err_within(&err, 0, "folder/%s/c.json", name);
    ck_assert(strncmp(err.text[0], "folder/aaaa", 11) == 0 && strstr(err.text[0], "aaa...aaa") &&
              strstr(err.text[0], "c.json: --set aaa") && strstr(err.text[0], "aaa: unknown key"));
    ck_assert_uint_lt(strlen(err.text[0]), ZT_ERR_TEXT);
    err = (struct zt_err){ 0 };
    zt_fail(&err, ZT_EXIT_CONFIG, "unknown key");
    zt_err_within(&err, 0, "folder/%s/c.json", name);
    ck_assert(strlen(err.text[0]) == ZT_ERR_TEXT - 1 && strstr(err.text[0], "/c.json: unknown key"));
}
END_TEST

START_TEST(characters_are_whole_beside_what_is_left_out) {
    char text[ZT_ERR_TEXT], name[3 * 400 + 1] = "";
    for (int i = 0; i < 400; i++)
        strcat(name, "\u20ac");
    for (int shift = 0; shift < 3; shift++) {
        err = (struct zt_err){ 0 };
        zt_fail(&err, ZT_EXIT_CONFIG, "%.*s%s: what", shift, "abc", name);
        ck_assert(strstr(err.text[0], "...") && strstr(err.text[0], ": what"));
        ck_assert_str_eq(zt_show(text, sizeof text, err.text[0]), err.text[0]); /* it escapes what is no UTF-8 */
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("err");
    tcase_add_test(cases, the_first_problem_gives_the_code_and_ten_keep_their_text);
    tcase_add_test(cases, a_hint_follows_its_problem);
    tcase_add_test(cases, a_prefix_is_put_before_the_problems_from_an_index_on);
    tcase_add_test(cases, texts_of_any_length_stay_inside_and_on_one_line);
    tcase_add_test(cases, of_a_long_text_the_middle_is_left_out);
    tcase_add_test(cases, characters_are_whole_beside_what_is_left_out);
    return run_suite("err", cases, CK_FORK);
}
