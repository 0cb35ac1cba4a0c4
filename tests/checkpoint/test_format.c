#include "tests/suite.h"

#include "base/crc.h"
#include "base/rng.h"
#include "checkpoint/format.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* tests/fuzz/fuzz_checkpoint.c */

enum { ROUNDS = 4000 };

/* A file of four tensors with its data. */
static size_t make_file(struct zt_stored_file *file, struct zt_stored_tensor tensors[4], struct zt_text *to) {
    static const struct zt_stored_tensor four[] = {
        { .name = "conv.weight", .shape = { 4, { 2, 3, 1, 1 } } },
        { .name = "a \"quoted\" \\ name\t\xc3\xa9", .shape = { 1, { 5 } } },
        { .name = "scalar", .shape = { 0, { 0 } } },
        { .name = "none", .shape = { 2, { 3, 0 } } },
    };
    memcpy(tensors, four, sizeof four);
    *file = (struct zt_stored_file){ .tensors = tensors, .count = 4 };
    zt_stored_layout(file, to);
    for (size_t i = to->length; i < (size_t)file->bytes; i++)
        zt_text_add_bytes(to, &(char){ (char)i }, 1);
    return to->length;
}

START_TEST(a_tensor_file_reads_as_it_was_written) {
    struct zt_err err = { 0 };
    struct zt_stored_tensor tensors[4];
    struct zt_stored_file file, found;
    struct zt_text text = { 0 };
    struct zt_arena *arena = zt_arena_create();
    struct zt_file_map map = { .size = make_file(&file, tensors, &text) };
    map.data = (const unsigned char *)text.at;
    ck_assert_msg(zt_stored_read(&found, &map, arena, &err), "%s", err.text[0]);
    ck_assert_int_eq(found.count, 4);
    ck_assert_int_eq(found.bytes, file.bytes);
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(found.tensors[i].name, tensors[i].name);
        ck_assert(zt_shape_equal(&found.tensors[i].shape, &tensors[i].shape));
        ck_assert_int_eq(found.tensors[i].at, tensors[i].at);
        ck_assert_int_eq(found.tensors[i].bytes, tensors[i].bytes);
    }
    ck_assert_int_eq(tensors[0].at % 64, 0);
    zt_arena_destroy(arena);
    zt_text_finish(&text);
}
END_TEST

/* Two blocks and a bit, of which one byte is another. */
START_TEST(a_damaged_block_is_named_with_its_tensors) {
    struct zt_err err = { 0 };
    struct zt_stored_tensor tensors[] = { { .name = "first", .shape = { 1, { 300000 } } },
                                          { .name = "second", .shape = { 1, { 250000 } } },
                                          { .name = "third", .shape = { 1, { 100000 } } } };
    struct zt_stored_file file = { .tensors = tensors, .count = 3 };
    struct zt_text text = { 0 };
    zt_stored_layout(&file, &text);
    unsigned char *bytes = zt_calloc(1, (size_t)file.bytes);
    memcpy(bytes, text.at, text.length);
    struct zt_file_map map = { bytes, (size_t)file.bytes };
    uint32_t crc[3];
    ck_assert_int_eq(zt_block_count(file.bytes), 3);
    for (int64_t b = 0; b < 3; b++) {
        int64_t rest = file.bytes - b * ZT_BLOCK_BYTES;
        crc[b] =
            zt_crc32c(0, bytes + b * ZT_BLOCK_BYTES, (size_t)(rest < ZT_BLOCK_BYTES ? rest : (int64_t)ZT_BLOCK_BYTES));
    }
    ck_assert_msg(zt_stored_check(&file, &map, crc, 0, 3, &err), "%s", err.text[0]);
    bytes[tensors[1].at + 5] ^= 1;
    ck_assert(zt_stored_check(&file, &map, crc, 0, 1, &err));
    ck_assert(!zt_stored_check(&file, &map, crc, 0, 3, &err));
    ck_assert_int_eq(err.count, 1);
    ck_assert_ptr_nonnull(strstr(err.text[0], "1048576..2097151"));
    ck_assert_ptr_nonnull(strstr(err.text[0], "\"first\", \"second\""));
    ck_assert_ptr_null(strstr(err.text[0], "third"));
    for (int i = 0; i < 3; i++) /* the second tensor had zeros alone */
        tensors[i].crc = zt_crc32c(0, i == 1 ? bytes + tensors[0].at : bytes + tensors[i].at, (size_t)tensors[i].bytes);
    file.has_checksum = true;
    err = (struct zt_err){ 0 };
    ck_assert(!zt_stored_check(&file, &map, crc, 0, 3, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "(\"second\")"));
    bytes[tensors[1].at + 5] ^= 1;
    bytes[9] ^= 1;
    err = (struct zt_err){ 0 };
    ck_assert(!zt_stored_check(&file, &map, crc, 0, 3, &err));
    ck_assert_ptr_nonnull(strstr(err.text[0], "(the header)"));
    free(bytes);
    zt_text_finish(&text);
}
END_TEST

static void make_manifest(bool parts, struct zt_text *to) {
    static uint32_t crc[2][3] = { { 1, 0xffffffff, 0x12345678 }, { 7 } }, tensors[2] = { 11, 0xfedcba98 };
    static struct zt_stored_tensor named[] = { { "a \"w\"", { 2, { 3, 4 } } }, { "scalar", { 0 } } };
    static struct zt_stored_file weights = { named, 2 };
    static double rates[] = { 0.1 / 3, 0.7 }, sums[] = { 2.5, 1e-9 };
    static struct zt_recorded_key keys[] = { { "optimizer.params.lr", "0.001" }, { "ztrain.tie", "[[\"a\",\"b\"]]" } };
    struct zt_manifest m = { .step = 24,
                             .epoch = 1,
                             .batch = 3,
                             .updates = 23,
                             .samples = 1500,
                             .seed = UINT64_C(9007199254740993),
                             .model = 0xdeadbeef,
                             .optimizer = "AdamW",
                             .scale = 32768,
                             .since_overflow = 7,
                             .hysteresis = 2,
                             .observes = true,
                             .lr_state = { .groups = parts ? 2 : 1,
                                           .lr = rates,
                                           .lr_sum = sums,
                                           .best = 1.0 / 7,
                                           .has_best = true,
                                           .bad_epochs = 2,
                                           .cooldown = 1,
                                           .epoch_loss = 12.3,
                                           .epoch_samples = 96 },
                             .best_metric = "loss",
                             .best_value = 0.1,
                             .best_step = 20,
                             .keys = keys,
                             .key_count = 2,
                             .files = 2,
                             .file = { { 2 * ZT_BLOCK_BYTES + 1, crc[0], tensors, 2 }, { 8, crc[1], tensors, 1 } },
                             .client_state = "{\"epochs\":[1,2.5],\"note\":\"x\"}" };
    struct zt_part_sums both[] = { { "near", m.file[0] }, { "a \"far\" one", m.file[1] } };
    if (parts) {
        m.files = 0;
        m.part_count = 2;
        m.parts = both;
        m.weights = &weights;
    }
    zt_manifest_write(&m, to);
}

START_TEST(a_manifest_reads_as_it_was_written) {
    struct zt_err err = { 0 };
    struct zt_manifest m;
    struct zt_text text = { 0 }, again = { 0 };
    struct zt_arena *arena = zt_arena_create();
    make_manifest(false, &text);
    ck_assert_msg(zt_manifest_read(&m, text.at, text.length, arena, &err), "%s", err.text[0]);
    ck_assert_int_eq(m.step, 24);
    ck_assert(m.observes && m.lr_state.groups == 1 && m.lr_state.lr[0] == 0.1 / 3 && m.lr_state.lr_sum[0] == 2.5 &&
              m.lr_state.has_best && m.lr_state.best == 1.0 / 7 && m.lr_state.epoch_loss == 12.3 &&
              m.lr_state.epoch_samples == 96 && m.lr_state.bad_epochs == 2 && m.lr_state.cooldown == 1);
    ck_assert_uint_eq(m.seed, UINT64_C(9007199254740993)); /* more than a JSON number holds */
    ck_assert_uint_eq(m.file[0].crc[1], 0xffffffff);
    ck_assert(m.file[0].tensors == 2 && m.file[0].tensor_crc[1] == 0xfedcba98 && m.file[1].tensors == 1 &&
              m.file[1].tensor_crc[0] == 11);
    ck_assert_str_eq(m.client_state, "{\"epochs\":[1,2.5],\"note\":\"x\"}");
    ck_assert_str_eq(m.keys[1].value, "[[\"a\",\"b\"]]");
    ck_assert(m.best_value == 0.1);
    ck_assert(m.scale == 32768 && m.since_overflow == 7 && m.hysteresis == 2);
    zt_manifest_write(&m, &again);
    ck_assert_str_eq(text.at, again.at);
    zt_arena_destroy(arena);
    zt_text_finish(&text);
    zt_text_finish(&again);
}
END_TEST

START_TEST(a_manifest_names_the_parts_of_ranks_and_their_hosts) {
    struct zt_err err = { 0 };
    struct zt_manifest m;
    struct zt_text text = { 0 }, again = { 0 };
    struct zt_arena *arena = zt_arena_create();
    make_manifest(true, &text);
    ck_assert_msg(zt_manifest_read(&m, text.at, text.length, arena, &err), "%s", err.text[0]);
    ck_assert(m.files == 0 && m.part_count == 2 && m.parts[1].sums.bytes == 8 && m.parts[1].sums.crc[0] == 7);
    ck_assert_str_eq(m.parts[1].host, "a \"far\" one");
    ck_assert(m.weights->count == 2 && m.weights->tensors[1].shape.rank == 0 && m.weights->tensors[0].bytes == 48);
    ck_assert(strcmp(m.weights->tensors[0].name, "a \"w\"") == 0 && m.weights->tensors[0].shape.dim[1] == 4 &&
              m.weights->tensors[1].at == m.weights->tensors[0].at + 48);
    ck_assert(m.lr_state.groups == 2 && m.lr_state.lr[0] == 0.1 / 3 && m.lr_state.lr[1] == 0.7);
    ck_assert(m.lr_state.lr_sum[0] == 2.5 && m.lr_state.lr_sum[1] == 1e-9);
    ck_assert(strstr(text.at, "\"version\": 2,") && strstr(text.at, "\"part-1-of-2.safetensors\""));
    zt_manifest_write(&m, &again);
    ck_assert_str_eq(text.at, again.at);
    zt_arena_destroy(arena);
    zt_text_finish(&text);
    zt_text_finish(&again);
}
END_TEST

START_TEST(a_manifest_with_any_other_bit_is_refused) {
    struct zt_text text = { 0 };
    struct zt_arena *arena = zt_arena_create();
    make_manifest(false, &text);
    for (size_t i = 0; i < text.length; i++) {
        struct zt_err err = { 0 };
        struct zt_manifest m;
        text.at[i] ^= (char)(1 << i % 8);
        ck_assert_msg(!zt_manifest_read(&m, text.at, text.length, arena, &err), "byte %zu", i);
        text.at[i] ^= (char)(1 << i % 8);
    }
    zt_arena_destroy(arena);
    zt_text_finish(&text);
}
END_TEST

/* Bytes changed, cut, doubled or taken out. */
static size_t mutate(struct zt_rng *rng, uint8_t *bytes, size_t size) {
    for (uint64_t n = 1 + zt_rng_below(rng, 3); n > 0 && size > 1; n--) {
        size_t at = (size_t)zt_rng_below(rng, size), count = (size_t)zt_rng_below(rng, size - at) % 16;
        uint64_t how = zt_rng_below(rng, 4);
        if (how == 0) {
            bytes[at] = (uint8_t) "0123456789-e.[]{},:\" \\"[zt_rng_below(rng, 22)];
        } else if (how == 1) {
            bytes[at] ^= (uint8_t)(1u << zt_rng_below(rng, 8));
        } else if (how == 2) {
            memmove(bytes + at + count, bytes + at, size - at);
            size += count;
        } else {
            memmove(bytes + at, bytes + at + count, size - at - count);
            size -= count;
        }
    }
    return size;
}

static void fuzz(const struct zt_text *seed, size_t size, uint64_t key) {
    for (int round = 0; round < ROUNDS; round++) {
        struct zt_rng rng = zt_rng_start(key, (uint64_t)round);
        uint8_t *bytes = zt_malloc(size + 64), *exact;
        memcpy(bytes, seed->at, size);
        size_t n = round ? mutate(&rng, bytes, size) : size;
        exact = zt_malloc(n + 1); /* of its own size, so that a sanitizer sees a byte read behind it */
        memcpy(exact, bytes, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
        free(bytes);
    }
}

START_TEST(mutated_files_are_read_or_refused) {
    struct zt_stored_tensor tensors[4];
    struct zt_stored_file file;
    struct zt_text tensor_file = { 0 }, slices = { 0 };
    size_t size = make_file(&file, tensors, &tensor_file);
    fuzz(&tensor_file, size, 1);
    for (int parts = 0; parts < 2; parts++) {
        struct zt_text manifest = { 0 };
        make_manifest(parts, &manifest);
        fuzz(&manifest, (size_t)(strstr(manifest.at, "  \"crc32c\": \"") - manifest.at), 2);
        zt_text_finish(&manifest);
    }
    file = (struct zt_stored_file){ (struct zt_stored_tensor[]){ { .name = "weights/a[b/[0:0]", .shape = { 1, { 0 } } },
                                                                 { .name = "ranks-copy/rank.1.ema[12:24]" } },
                                    .count = 2 };
    zt_stored_layout(&file, &slices);
    zt_text_add_bytes(&slices, "four", 4);
    fuzz(&slices, slices.length, 3);
    zt_text_finish(&tensor_file);
    zt_text_finish(&slices);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("checkpoint format");
    tcase_add_test(cases, a_tensor_file_reads_as_it_was_written);
    tcase_add_test(cases, a_damaged_block_is_named_with_its_tensors);
    tcase_add_test(cases, a_manifest_reads_as_it_was_written);
    tcase_add_test(cases, a_manifest_names_the_parts_of_ranks_and_their_hosts);
    tcase_add_test(cases, a_manifest_with_any_other_bit_is_refused);
    tcase_add_test(cases, mutated_files_are_read_or_refused);
    return run_suite("checkpoint format", cases, CK_FORK);
}
