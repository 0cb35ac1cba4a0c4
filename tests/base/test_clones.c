/* What ZT_CLONES stands for in a file that includes nothing before it. */
#include "base/clones.h"

#include "tests/suite.h"

#include <string.h>

#define TEXT_OF(macro)  #macro
#define EXPANDED(macro) TEXT_OF(macro)

START_TEST(loops_are_cloned_whatever_was_included_before) {
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(ZT_ONE_CLONE)
    ck_assert_ptr_nonnull(strstr(EXPANDED((ZT_CLONES)), "avx512f"));
    ck_assert_ptr_nonnull(strstr(EXPANDED((ZT_FMA_CLONES)), "avx512f"));
#endif
}
END_TEST

int main(void) {
    TCase *test = tcase_create("clones");
    tcase_add_test(test, loops_are_cloned_whatever_was_included_before);
    return run_suite("clones", test, CK_FORK);
}
