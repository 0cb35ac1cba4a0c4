#include "tests/suite.h"

#include "base/crc.h"
#include "base/rng.h"

#include <string.h>

/* RFC 3720, appendix B.4, and the check value of the CRC catalogue. */
START_TEST(checksums_are_the_published_ones) {
    unsigned char bytes[32];
    ck_assert_uint_eq(zt_crc32c(0, "123456789", 9), 0xe3069283);
    ck_assert_uint_eq(zt_crc32c(0, "", 0), 0);
    memset(bytes, 0, sizeof bytes);
    ck_assert_uint_eq(zt_crc32c(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    ck_assert_uint_eq(zt_crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    ck_assert_uint_eq(zt_crc32c(0, bytes, sizeof bytes), 0x46dd794e);
}
END_TEST

START_TEST(a_checksum_goes_on_where_another_ended) {
    ck_assert_uint_eq(zt_crc32c(zt_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
}
END_TEST

START_TEST(parts_in_any_order_make_the_checksum_of_the_whole) {
    enum { BYTES = 5000 };
    unsigned char all[BYTES];
    struct zt_rng rng = zt_rng_start(zt_rng_key(7, 0, 0, 0), 0);
    for (int i = 0; i < BYTES; i++)
        all[i] = (unsigned char)zt_rng_u32(&rng);
    for (int round = 0; round < 200; round++) {
        size_t a = zt_rng_below(&rng, BYTES + 1), b = a + zt_rng_below(&rng, BYTES + 1 - a);
        uint32_t last = zt_crc32c(0, all + b, BYTES - b);
        uint32_t middle = zt_crc32c_shift(zt_crc32c(0, all + a, b - a), BYTES - b);
        uint32_t first = zt_crc32c_shift(zt_crc32c(0, all, a), BYTES - a);
        ck_assert_uint_eq(last ^ first ^ middle, zt_crc32c(0, all, BYTES));
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("crc");
    tcase_add_test(cases, checksums_are_the_published_ones);
    tcase_add_test(cases, a_checksum_goes_on_where_another_ended);
    tcase_add_test(cases, parts_in_any_order_make_the_checksum_of_the_whole);
    return run_suite("crc", cases, CK_FORK);
}
