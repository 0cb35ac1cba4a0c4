#include "tests/suite.h"

#include "base/arena.h"
#include "base/rng.h"
#include "base/vec.h"

#include <stdint.h>
#include <string.h>

/* Returns the number of leading bytes that are `value`. Check writes a line for every assertion, so one is made of all
 * of them.
 */
static size_t count_first(const unsigned char *at, size_t bytes, unsigned char value) {
    size_t count = 0;
    while (count < bytes && at[count] == value)
        count++;
    return count;
}

START_TEST(objects_are_zeroed_aligned_and_apart_whatever_their_sizes) {
    enum { OBJECTS = 3000 };
    struct zt_arena *arena = zt_arena_create();
    struct zt_rng rng = zt_rng_start(1, 2);
    unsigned char *at[OBJECTS];
    size_t size[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        size[i] = (size_t)zt_rng_below(&rng, i % 50 == 0 ? 200000 : 300); /* some get a chunk of their own */
        at[i] = zt_arena_alloc(arena, size[i]);
        ck_assert_uint_eq((uintptr_t)at[i] % 64, 0);
        ck_assert_uint_eq(count_first(at[i], size[i], 0), size[i]);
        memset(at[i], i & 255, size[i]);
    }
    for (int i = 0; i < OBJECTS; i++)
        ck_assert_uint_eq(count_first(at[i], size[i], (unsigned char)i), size[i]);
    zt_arena_destroy(arena);
}
END_TEST

START_TEST(objects_of_no_bytes_are_objects_too) {
    struct zt_arena *arena = zt_arena_create();
    void *a = zt_arena_alloc(arena, 0), *b = zt_arena_copy(arena, NULL, 0);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_ne(a, b);
    zt_arena_destroy(arena);
    zt_arena_destroy(NULL);
}
END_TEST

START_TEST(texts_are_copied_and_ended) {
    struct zt_arena *arena = zt_arena_create();
    char word[] = "gradient";
    char *copy = zt_arena_strdup(arena, word), *part = zt_arena_strndup(arena, word, 4);
    word[0] = 'x';
    ck_assert_str_eq(copy, "gradient");
    ck_assert_str_eq(part, "grad");
    char *made = zt_arena_printf(arena, "%s-%d", "layer", 12);
    ck_assert_str_eq(made, "layer-12");
    zt_arena_destroy(arena);
}
END_TEST

START_TEST(a_vector_keeps_what_was_pushed) {
    ZT_VEC(struct {
        int key;
        double value;
    })
    vec = { 0 };
    for (int i = 0; i < 1000; i++)
        zt_vec_push(&vec, (__typeof__(*vec.at)){ i, i * 0.5 });
    ck_assert_int_eq(vec.count, 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert(vec.at[i].key == i && vec.at[i].value == i * 0.5);
    zt_vec_finish(&vec);
    ck_assert_ptr_null(vec.at);
    ck_assert_int_eq(vec.count, 0);
}
END_TEST

START_TEST(a_block_the_system_refuses_is_an_error_with_its_name) {
    struct zt_err err = { 0 };
    ck_assert_ptr_null(zt_block_create(SIZE_MAX / 2, "optimizer state", &err));
    ck_assert_int_eq(err.code, ZT_EXIT_RUN);
    ck_assert_ptr_nonnull(strstr(err.text[0], "optimizer state"));
    err = (struct zt_err){ 0 };
    for (size_t bytes = 0; bytes < (size_t)9 << 20; bytes = 3 * bytes + 5) {
        unsigned char *block = zt_block_create(bytes, "a block", &err);
        ck_assert_ptr_nonnull(block);
        ck_assert_uint_eq((uintptr_t)block % 64, 0);
        ck_assert_uint_eq(count_first(block, bytes, 0), bytes);
        zt_block_destroy(block, bytes);
    }
    zt_block_destroy(NULL, 5);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("arena");
    tcase_add_test(cases, objects_are_zeroed_aligned_and_apart_whatever_their_sizes);
    tcase_add_test(cases, objects_of_no_bytes_are_objects_too);
    tcase_add_test(cases, texts_are_copied_and_ended);
    tcase_add_test(cases, a_vector_keeps_what_was_pushed);
    tcase_add_test(cases, a_block_the_system_refuses_is_an_error_with_its_name);
    return run_suite("arena", cases, CK_FORK);
}
