#include "base/file.h"
#include "base/rng.h"
#include "build.h"
#include "reference.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* tests/fuzz/fuzz_onnx.c */

enum { ROUNDS = 400, FEW_ROUNDS = 4, LARGE_BYTES = 64 << 10 };

/* One to four changes: a byte, a bit, a cut at the end, a stretch doubled or taken out. */
static size_t mutate(struct zt_rng *rng, uint8_t *bytes, size_t size) {
    for (uint64_t n = 1 + zt_rng_below(rng, 4); n > 0 && size > 1; n--) {
        size_t at = (size_t)zt_rng_below(rng, size), count = (size_t)zt_rng_below(rng, size - at) % 32;
        switch (zt_rng_below(rng, 5)) {
        case 0:
            bytes[at] = (uint8_t)zt_rng_u32(rng);
            break;
        case 1:
            bytes[at] ^= (uint8_t)(1u << zt_rng_below(rng, 8));
            break;
        case 2:
            size = zt_rng_below(rng, 4) ? size : at + 1;
            break;
        case 3:
            memmove(bytes + at + count, bytes + at, size - at); /* the room is twice the file's size, see below */
            size += count;
            break;
        default:
            memmove(bytes + at, bytes + at + count, size - at - count);
            size -= count;
        }
    }
    return size;
}

static void fuzz(const void *seed, size_t size, uint64_t key) {
    uint8_t *bytes = malloc(2 * size + 4 * 32);
    for (int round = 0; round < (size > LARGE_BYTES ? FEW_ROUNDS : ROUNDS); round++) {
        struct zt_rng rng = zt_rng_start(key, (uint64_t)round);
        memcpy(bytes, seed, size);
        LLVMFuzzerTestOneInput(bytes, round ? mutate(&rng, bytes, size) : size);
    }
    free(bytes);
}

START_TEST(a_mutated_model_is_read_or_refused) {
    struct zt_text graph = { 0 }, model = { 0 }, attribute = { 0 };
    put_sum(&graph);
    put_string(&attribute, 1, "axes");
    put_int(&attribute, 20, 7);
    put_int(&attribute, 8, 1);
    put_node(&graph, "", "ReduceSum", "y", NULL, "z", &attribute);
    put_value(&graph, 11, "x");
    put_value(&graph, 13, "w");
    put_sparse(&graph, 15, (const int64_t[]){ 0, 1, 1, 2 }, 2);
    put_header(&model, 8);
    put_message(&model, 7, &graph);
    fuzz(model.at, model.length, 1);
    zt_text_finish(&model);
}
END_TEST

START_TEST(the_references_bad_models_survive_mutation) {
    char *folder = zt_test_reference("bad/models");
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    uint64_t key = 2;
    for (const struct dirent *entry; (entry = readdir(dir)); key++) {
        struct zt_file_map map;
        struct zt_err err = { 0 };
        if (!strstr(entry->d_name, ".onnx"))
            continue;
        char *path = zt_path_join(folder, entry->d_name);
        ck_assert_msg(zt_file_map(&map, path, ZT_EXIT_DATA, &err), "%s", err.text[0]);
        fuzz(map.data, map.size, key);
        zt_file_unmap(&map);
        free(path);
    }
    closedir(dir);
    free(folder);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("fuzz");
    tcase_add_test(cases, a_mutated_model_is_read_or_refused);
    tcase_add_test(cases, the_references_bad_models_survive_mutation);
    return run_cases("onnx_fuzz", cases);
}
