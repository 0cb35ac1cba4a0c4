#include "tests/suite.h"

#include "base/map.h"

#include <stdio.h>

START_TEST(names_give_their_numbers_however_many_there_are) {
    enum { NAMES = 20000 };
    static char name[NAMES][16];
    struct zt_map map = { 0 };
    ck_assert_int_eq(zt_map_get(&map, "nothing", -7), -7);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name[i], sizeof name[i], "v.%d", i);
        zt_map_put(&map, name[i], i);
    }
    for (int i = 0; i < NAMES; i += 2)
        zt_map_put(&map, name[i], -i);
    ck_assert_uint_eq(map.count, NAMES);
    for (int i = 0; i < NAMES; i++)
        ck_assert_int_eq(zt_map_get(&map, name[i], 1), i % 2 ? i : -i);
    ck_assert_int_eq(zt_map_get(&map, "v.20000", -7), -7);
    ck_assert_int_eq(zt_map_get(&map, "", -7), -7);
    zt_map_finish(&map);
    ck_assert_int_eq(zt_map_get(&map, "v.1", -7), -7);
}
END_TEST

/* draft-eastlake-fnv: test vectors of 64-bit FNV-1a */
START_TEST(the_hash_is_fnv_1a) {
    ck_assert(zt_hash(ZT_HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
    ck_assert(zt_hash(ZT_HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    ck_assert(zt_hash(ZT_HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    ck_assert(zt_hash(zt_hash(ZT_HASH_START, "foo", 3), "bar", 3) == UINT64_C(0x85944171f73967e8));
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("map");
    tcase_add_test(cases, names_give_their_numbers_however_many_there_are);
    tcase_add_test(cases, the_hash_is_fnv_1a);
    return run_suite("map", cases, CK_FORK);
}
