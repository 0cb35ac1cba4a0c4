#include "tests/suite.h"

#include "base/show.h"

#include <string.h>

static void shows(const char *text, const char *wanted) {
    char to[256];
    ck_assert_str_eq(zt_show(to, sizeof to, text), wanted);
    ck_assert_str_eq(zt_show(to, sizeof to, wanted), wanted); /* twice is once */
}

START_TEST(what_a_terminal_obeys_is_escaped) {
    shows("a\x1b[31m\nb\x7f", "a\\x1b[31m\\x0ab\\x7f");
    shows("\xc2\x80 \xc2\x9b \xc2\xa0", "\\u0080 \\u009b \xc2\xa0");
    shows("\xe2\x80\x8d\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x90", "\xe2\x80\x8d\\u200e\\u200f\xe2\x80\x90");
    shows("\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa\xd8\x9c",
          "\\u202a\\u202e\xe2\x80\xaf\\u2066\\u2069\xe2\x81\xaa\\u061c");
}
END_TEST

START_TEST(what_is_not_utf8_is_escaped_byte_by_byte) {
    shows("\xff", "\\xff");
    shows("\xc3", "\\xc3");
    shows("\xc3(", "\\xc3(");
    shows("\xc0\xaf", "\\xc0\\xaf");                   /* overlong */
    shows("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
    shows("\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"); /* beyond U+10FFFF */
    shows("\x80", "\\x80");
}
END_TEST

START_TEST(other_text_stays) {
    shows("", "");
    shows("conv1/W \\ \"x\" \xc3\xa4 \xe6\xbc\xa2 \xf0\x9f\x98\x80",
          "conv1/W \\ \"x\" \xc3\xa4 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
}
END_TEST

START_TEST(a_text_is_cut_between_characters) {
    char to[8];
    ck_assert_str_eq(zt_show(to, 4, "ab\xc3\xa4"), "ab");
    ck_assert_str_eq(zt_show(to, 5, "ab\xc3\xa4"), "ab\xc3\xa4");
    ck_assert_str_eq(zt_show(to, 6, "ab\x1b"), "ab");
    ck_assert_str_eq(zt_show(to, 1, "ab"), "");
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("show");
    tcase_add_test(cases, what_a_terminal_obeys_is_escaped);
    tcase_add_test(cases, what_is_not_utf8_is_escaped_byte_by_byte);
    tcase_add_test(cases, other_text_stays);
    tcase_add_test(cases, a_text_is_cut_between_characters);
    return run_suite("show", cases, CK_FORK);
}
