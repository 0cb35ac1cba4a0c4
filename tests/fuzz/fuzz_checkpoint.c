// Reads hostile bytes as a tensor file and, behind a checksum that is right, as a manifest; what passes is held to what
// the readers promise, written and read again. For libFuzzer:
//
//     clang -g -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -I. -Isrc tests/fuzz/fuzz_checkpoint.c
//         src/checkpoint_tensors.c src/checkpoint_manifest.c src/base/*.c graph/dtype.c -lcjson -lm -o fuzz_checkpoint
//     ./fuzz_checkpoint -rss_limit_mb=4096 CORPUS RUN/checkpoints/step-N
//
// tests/checkpoint/test_format.c runs the same entry on mutated files in every build.
#include "base/crc.h"
#include "checkpoint_format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void promise(bool holds) {
    if (!holds)
        abort();
}

static void read_tensors(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_file_map map = { data, size };
    struct zt_arena *arena = zt_arena_create();
    struct zt_stored_file file;
    if (zt_stored_read(&file, &map, arena, &err)) {
        int64_t end = file.count ? file.tensors[0].at : (int64_t)size;
        for (int i = 0; i < file.count; i++) {
            promise(file.tensors[i].at == end);
            promise(file.tensors[i].bytes == 4 * zt_shape_count(&file.tensors[i].shape));
            end += file.tensors[i].bytes;
        }
        promise(end == (int64_t)size);
    }
    file.bytes = (int64_t)size;
    uint32_t *none = zt_calloc((size_t)zt_block_count(file.bytes) + 1, sizeof *none);
    zt_stored_check(&file, &map, none, 0, zt_block_count(file.bytes), &err);
    free(none);
    zt_arena_destroy(arena);
}

static void read_manifest(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_arena *arena = zt_arena_create();
    struct zt_manifest first, second;
    struct zt_text text = { 0 };
    zt_text_add_bytes(&text, data, size);
    zt_text_add(&text, "  \"crc32c\": \"%08x\"\n}\n", zt_crc32c(0, data, size));
    if (zt_manifest_read(&first, text.at, text.length, arena, &err)) {
        zt_manifest_write(&first, &text);
        promise(zt_manifest_read(&second, text.at, text.length, arena, &err));
        promise(second.step == first.step && second.seed == first.seed && second.key_count == first.key_count);
        for (int f = 0; f < ZT_STORED_FILES; f++)
            promise(second.file_bytes[f] == first.file_bytes[f]);
    }
    zt_text_finish(&text);
    zt_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_manifest manifest;
    struct zt_arena *arena = zt_arena_create();
    read_tensors(data, size);
    read_manifest(data, size);
    zt_manifest_read(&manifest, data, size, arena, &err);
    zt_arena_destroy(arena);
    return 0;
}
