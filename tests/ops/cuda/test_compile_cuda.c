/* Run-time compilation of the CUDA module, without a GPU: NVRTC compiles the generated source of every elementwise
 * expression, for every type and architecture, and the disk cache of the results is safe. */
#include "ops/cuda/compile_cuda.h"
#include "tests/gpu/cache_folder.h"
#include "tests/suite.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/elementwise/source_cuda.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/disk_cache.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- sources ---- */

static struct zt_kernel_source one_step(const struct zt_pointwise *what, enum zt_dtype in, enum zt_dtype out) {
    struct zt_kernel_source s = { .fused = { .inputs = what->inputs, .steps = 1 }, .width = 1 };
    s.fused.step[0] = (struct zt_fused_elementwise_step){ .what = *what, .dtype = out };
    for (int i = 0; i < what->inputs; i++) {
        s.input[i].dtype = in;
        s.fused.step[0].from[i] = i;
    }
    return s;
}

static void compiles(const struct zt_kernel_source *s, int capability, const char *what) {
    const struct zt_compile_target target = { capability, .ptx = true };
    struct zt_text source = { 0 }, ptx = { 0 };
    struct zt_err err = { 0 };
    zt_kernel_source_write(s, &source);
    ck_assert_msg(zt_compile_source(source.at, &target, &ptx, &err), "%s for sm_%d: %s\n%s", what, capability,
                  err.text[0], source.at);
    ck_assert_msg(strstr(ptx.at, ".entry " ZT_KERNEL_ENTRY "(") != NULL, "%s: no entry in the PTX", what);
    zt_text_finish(&source);
    zt_text_finish(&ptx);
}

static const int capabilities[] = { 80, 90, 100 };
enum { CAPABILITIES = sizeof capabilities / sizeof *capabilities };

/* All values of the table as one fused would be too long; so many at a time. */
START_TEST(every_float_expression_compiles) {
    static const struct zt_pointwise rows[] = {
#define LOOP(id, INPUTS, U, U0, V, V0, ZERO, VALUE)                                                                    \
    { .value = #VALUE, .dtype = ZT_FLOAT, .inputs = INPUTS, .number = { U0, V0 }, .scale = 1 },
#include "ops/elementwise/loops.inc"
    };
    const int count = (int)(sizeof rows / sizeof *rows);
    for (int first = 0; first < count; first += ZT_FUSED_STEPS) {
        struct zt_kernel_source s = { .input = { { .dtype = ZT_FLOAT }, { .dtype = ZT_BFLOAT16 } }, .width = 8 };
        s.fused.inputs = 2;
        for (int i = first; i < count && s.fused.steps < ZT_FUSED_STEPS; i++) {
            struct zt_fused_elementwise_step *step = &s.fused.step[s.fused.steps];
            *step = (struct zt_fused_elementwise_step){ .what = rows[i], .from = { 0, 1 }, .dtype = ZT_FLOAT };
            step->from[0] = s.fused.steps ? s.fused.inputs + s.fused.steps - 1 : 0;
            s.fused.steps++;
        }
        compiles(&s, capabilities[_i], rows[first].value);
    }
}
END_TEST

/* Every type as what lies between two steps: made of floats, read as floats, and chosen from as it is stored. */
START_TEST(chains_through_every_type_compile) {
    static const enum zt_dtype types[] = { ZT_FLOAT, ZT_FLOAT16, ZT_BFLOAT16, ZT_BOOL,  ZT_INT8,
                                           ZT_INT16, ZT_UINT8,   ZT_UINT16,   ZT_INT32, ZT_DOUBLE };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const enum zt_dtype t = types[i], computed = zt_dtype_in(t, ZT_ANY_HALF) ? ZT_FLOAT : t;
        const struct zt_kernel_source s = {
            .input = { { .dtype = ZT_FLOAT }, { .dtype = t, .broadcast = ZT_BROADCAST_ONE }, { .dtype = ZT_BOOL } },
            .width = 4,
            .fused = { .inputs = 3,
                       .steps = 3,
                       .step = { { { .value = "a", .dtype = ZT_FLOAT, .inputs = 1, .scale = 1 }, { 0 }, t },
                                 { { .value = "a ? b : c", .dtype = t, .copies = true, .inputs = 3, .scale = 1 },
                                   { 2, 3, 1 },
                                   t },
                                 { { .value = "a", .dtype = computed, .inputs = 1, .scale = 1 }, { 4 }, ZT_FLOAT } } },
        };
        compiles(&s, capabilities[_i], zt_dtype_name(t));
    }
}
END_TEST

START_TEST(every_type_is_read_and_written) {
    static const enum zt_dtype types[] = { ZT_FLOAT, ZT_FLOAT16, ZT_BFLOAT16, ZT_DOUBLE, ZT_BOOL,   ZT_INT8,  ZT_INT16,
                                           ZT_INT32, ZT_INT64,   ZT_UINT8,    ZT_UINT16, ZT_UINT32, ZT_UINT64 };
    const int count = (int)(sizeof types / sizeof *types);
    for (int i = 0; i < count; i++) {
        const bool half = zt_dtype_in(types[i], ZT_ANY_HALF);
        const struct zt_pointwise what = {
            .value = "a", .dtype = half ? ZT_FLOAT : types[i], .inputs = 1, .number = { INFINITY, NAN }, .scale = 1
        };
        struct zt_kernel_source s = one_step(&what, types[i], types[(i + 1) % count]);
        s.wide = i % 2;
        s.axes = 3;
        s.width = 1 << i % 4;
        s.input[0].broadcast = (enum zt_broadcast_kind)(i % 3);
        s.input[0].still = i % 2;
        compiles(&s, 90, zt_dtype_name(types[i]));
    }
}
END_TEST

/* Eight of bfloat16, beside each other, one for all and along an axis: a load and a store of 16 bytes each, and nothing
 * in a thread's own memory. */
START_TEST(packs_are_moved_at_once) {
    const struct zt_pointwise what = { .value = "a + b * c", .dtype = ZT_FLOAT, .inputs = 3, .scale = 1 };
    const struct zt_compile_target target = { 90, .ptx = true };
    struct zt_kernel_source s = one_step(&what, ZT_BFLOAT16, ZT_BFLOAT16);
    struct zt_text source = { 0 }, ptx = { 0 };
    s.input[1].broadcast = ZT_BROADCAST_ONE;
    s.input[2] = (struct zt_kernel_input){ ZT_FLOAT, ZT_BROADCAST_AXES, true };
    s.axes = 2;
    s.width = 8;
    zt_kernel_source_write(&s, &source);
    ck_assert(zt_compile_source(source.at, &target, &ptx, &(struct zt_err){ 0 }));
    ck_assert_msg(strstr(ptx.at, "ld.global.nc.v4") && strstr(ptx.at, "st.global.v4") && !strstr(ptx.at, ".local"),
                  "%s", ptx.at);
    s.in_place = true;
    zt_text_finish(&source);
    zt_text_finish(&ptx);
    zt_kernel_source_write(&s, &source);
    ck_assert(zt_compile_source(source.at, &target, &ptx, &(struct zt_err){ 0 }));
    ck_assert_msg(strstr(ptx.at, "ld.global.v4") && !strstr(ptx.at, "ld.global.nc.v4"), "%s", ptx.at);
    zt_text_finish(&source);
    zt_text_finish(&ptx);
}
END_TEST

/* Rows that are all of a matrix and rows that are a pack of it: lines of a tile come at once, what lies together goes
 * at once, and the tile itself is in registers. */
START_TEST(turned_tiles_stay_in_registers) {
    static const struct zt_kernel_tile tiles[] = { { 3, 4, true }, { 8, 4, false }, { 5, 1, true }, { 4, 2, false } };
    const struct zt_pointwise what = { .value = "a", .dtype = ZT_FLOAT, .inputs = 1, .scale = 1 };
    const struct zt_compile_target target = { 90, .ptx = true };
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        struct zt_kernel_source s = one_step(&what, ZT_FLOAT, ZT_BFLOAT16);
        struct zt_text source = { 0 }, ptx = { 0 };
        s.tile = tiles[i];
        s.width = tiles[i].rows * tiles[i].columns;
        zt_kernel_source_write(&s, &source);
        ck_assert_msg(zt_compile_source(source.at, &target, &ptx, &(struct zt_err){ 0 }), "%s", source.at);
        ck_assert_msg(!strstr(ptx.at, ".local"), "%s", ptx.at);
        ck_assert_msg(tiles[i].columns < 4 || strstr(ptx.at, "ld.global.nc.v4"), "%s", ptx.at);
        ck_assert_msg(tiles[i].rows < 8 || strstr(ptx.at, "st.global.v4"), "%s", ptx.at);
        zt_text_finish(&source);
        zt_text_finish(&ptx);
    }
}
END_TEST

static const struct zt_compile_target ptx_90 = { 90, .ptx = true }, sm_90 = { 90, .ptx = false };

START_TEST(a_broken_source_is_refused_with_what_the_compiler_says) {
    struct zt_text code = { 0 };
    struct zt_err err = { 0 };
    ck_assert(!zt_compile_source("extern \"C\" __global__ void chain() { nothing; }", &ptx_90, &code, &err));
    ck_assert_msg(strstr(err.hint[0], "nothing") != NULL, "%s", err.hint[0]);
}
END_TEST

/* ---- for which GPU ---- */

START_TEST(a_gpu_the_compiler_knows_gets_machine_code_and_a_newer_one_ptx) {
    static const int archs[] = { 75, 80, 86, 90, 120, 100, 121 }; /* in no order that is promised */
    static const struct {
        int capability;
        struct zt_compile_target wanted;
    } rows[] = { { 90, { 90, false } },  { 120, { 120, false } }, { 75, { 75, false } }, { 89, { 86, true } },
                 { 103, { 100, true } }, { 200, { 121, true } },  { 70, { 0, true } } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct zt_compile_target found;
        bool any = zt_compile_choose(archs, sizeof archs / sizeof *archs, rows[i].capability, &found);
        ck_assert_int_eq(any, rows[i].wanted.capability > 0);
        ck_assert_int_eq(found.capability, rows[i].wanted.capability);
        ck_assert(!any || found.ptx == rows[i].wanted.ptx);
    }
}
END_TEST

START_TEST(code_for_a_gpu_newer_than_the_compiler_is_ptx_the_driver_can_read) {
    static const char source[] = "extern \"C\" __global__ void chain() { }";
    struct zt_text machine = { 0 }, ptx = { 0 };
    struct zt_err err = { 0 };
    ck_assert_msg(zt_compile_find(source, 90, &machine, &err), "%s", err.text[0]);
    ck_assert_msg(zt_compile_find(source, 998, &ptx, &err), "%s", err.text[0]);
    ck_assert(memcmp(machine.at, "\177ELF", 4) == 0);
    ck_assert_ptr_nonnull(strstr(ptx.at, ".target sm_"));
    ck_assert_ptr_nonnull(strstr(ptx.at, ".entry chain("));
    ck_assert_int_eq(ptx.at[ptx.length - 1], 0); /* loading it looks for the end */
    struct zt_text again = { 0 };
    ck_assert(zt_compile_find(source, 998, &again, &err)); /* from disk */
    ck_assert(again.length == ptx.length && memcmp(again.at, ptx.at, ptx.length) == 0);
    ck_assert(!zt_compile_find(source, 12, &again, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "no target for compute capability 1.2"));
    zt_text_finish(&machine);
    zt_text_finish(&ptx);
    zt_text_finish(&again);
}
END_TEST

/* ---- on disk ---- */

static const char source[] = "extern \"C\" __global__ void chain() {}";

static char *path_of(void) {
    struct zt_text path = { 0 };
    ck_assert(zt_compile_path(source, &sm_90, &path));
    return path.at;
}

static bool keep(const char *path, const char *words) {
    struct zt_text code = { 0 };
    struct zt_err err = { 0 };
    zt_text_add(&code, "%s", words);
    bool ok = zt_disk_cache_write(path, source, &code, &err);
    zt_text_finish(&code);
    return ok;
}

START_TEST(what_was_kept_is_read_again) {
    char *path = path_of();
    struct zt_text code = { 0 };
    ck_assert(strncmp(path, cache_folder, strlen(cache_folder)) == 0);
    ck_assert(!zt_disk_cache_read(path, source, &code));
    ck_assert(keep(path, "machine code"));
    ck_assert(zt_disk_cache_read(path, source, &code));
    ck_assert_str_eq(code.at, "machine code");
    struct zt_text other = { 0 };
    ck_assert(!zt_disk_cache_read(path, "extern \"C\" __global__ void chain() ", &other));
    zt_text_finish(&code);
    free(path);
}
END_TEST

/* Every byte of the file in turn, and every length. */
START_TEST(a_damaged_file_is_not_read) {
    char *path = path_of();
    struct zt_file_map map;
    struct zt_err err = { 0 };
    struct zt_text code = { 0 };
    ck_assert(keep(path, "machine code"));
    ck_assert(zt_file_map(&map, path, ZT_EXIT_RUN, &err));
    char *bytes = zt_malloc(map.size);
    memcpy(bytes, map.data, map.size);
    const size_t size = map.size;
    zt_file_unmap(&map);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x40;
        ck_assert(zt_file_write(path, bytes, size, &err));
        ck_assert_msg(!zt_disk_cache_read(path, source, &code), "byte %zu", i);
        bytes[i] ^= 0x40;
        ck_assert(zt_file_write(path, bytes, i, &err));
        ck_assert_msg(!zt_disk_cache_read(path, source, &code), "%zu bytes", i);
    }
    free(bytes);
    free(path);
}
END_TEST

static void *write_often(void *words) {
    char *path = path_of();
    for (int i = 0; i < 50; i++)
        ck_assert(keep(path, words));
    free(path);
    return NULL;
}

/* Two lengths, so that a mixture would show. */
START_TEST(writers_at_the_same_time_leave_a_whole_file) {
    static char long_words[4096], short_words[] = "short";
    memset(long_words, 'x', sizeof long_words - 1);
    char *path = path_of();
    pthread_t writers[4];
    ck_assert(keep(path, short_words));
    for (int i = 0; i < 4; i++)
        pthread_create(&writers[i], NULL, write_often, i % 2 ? long_words : short_words);
    for (int i = 0; i < 500; i++) {
        struct zt_text code = { 0 };
        ck_assert(zt_disk_cache_read(path, source, &code));
        ck_assert(strcmp(code.at, short_words) == 0 || strcmp(code.at, long_words) == 0);
        zt_text_finish(&code);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(writers[i], NULL);
    free(path);
}
END_TEST

int main(void) {
    if (!cache_begin())
        return 1;
    TCase *test = tcase_create("generated");
    tcase_add_loop_test(test, every_float_expression_compiles, 0, CAPABILITIES);
    tcase_add_loop_test(test, chains_through_every_type_compile, 0, CAPABILITIES);
    tcase_add_test(test, every_type_is_read_and_written);
    tcase_add_test(test, packs_are_moved_at_once);
    tcase_add_test(test, turned_tiles_stay_in_registers);
    tcase_add_test(test, a_broken_source_is_refused_with_what_the_compiler_says);
    tcase_add_test(test, what_was_kept_is_read_again);
    tcase_add_test(test, a_damaged_file_is_not_read);
    tcase_add_test(test, writers_at_the_same_time_leave_a_whole_file);
    tcase_add_test(test, a_gpu_the_compiler_knows_gets_machine_code_and_a_newer_one_ptx);
    tcase_add_test(test, code_for_a_gpu_newer_than_the_compiler_is_ptx_the_driver_can_read);
    int failed = run_suite("generated", test, CK_NOFORK);
    cache_end();
    return failed != 0;
}
