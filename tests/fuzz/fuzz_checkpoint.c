// Hostile bytes as a tensor file and, behind a checksum that is right, as a manifest; what passes is held to what the
// readers promise, written and read again. tests/checkpoint/test_format.c runs the same entry on mutated files in every
// build.
#include "base/crc.h"
#include "checkpoint/parts.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void read_slice(const char *text, struct zt_arena *arena) {
    struct zt_part_slice slice, again;
    const char *name, *same;
    if (!zt_part_parse(text, arena, &slice, &name))
        return;
    fuzz_promise(slice.file >= 0 && slice.file < ZT_STORED_FILES && slice.first >= 0 && slice.first < slice.end);
    fuzz_promise(zt_part_parse(zt_part_slice_name(arena, &slice, name), arena, &again, &same));
    fuzz_promise(strcmp(name, same) == 0 && slice.file == again.file && slice.copy == again.copy &&
                 slice.first == again.first && slice.end == again.end);
}

static void read_tensors(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_file_map map = { data, size };
    struct zt_arena *arena = zt_arena_create();
    struct zt_stored_file file;
    if (zt_stored_read(&file, &map, arena, &err)) {
        int64_t end = file.count ? file.tensors[0].at : (int64_t)size;
        for (int i = 0; i < file.count; i++) {
            fuzz_promise(file.tensors[i].at == end);
            fuzz_promise(file.tensors[i].bytes == 4 * zt_shape_count(&file.tensors[i].shape));
            end += file.tensors[i].bytes;
            read_slice(file.tensors[i].name, arena);
        }
        fuzz_promise(end == (int64_t)size);
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
        fuzz_promise(zt_manifest_read(&second, text.at, text.length, arena, &err));
        fuzz_promise(second.step == first.step && second.seed == first.seed && second.key_count == first.key_count);
        fuzz_promise(second.part_count == first.part_count && !first.files == !!first.part_count);
        for (int i = 0; i < first.part_count; i++)
            fuzz_promise(second.parts[i].sums.bytes == first.parts[i].sums.bytes);
        fuzz_promise(!second.weights == !first.weights);
        for (int i = 0; first.weights && i < first.weights->count; i++)
            fuzz_promise(second.weights->tensors[i].at == first.weights->tensors[i].at);
        for (int f = 0; f < ZT_STORED_FILES; f++)
            fuzz_promise(second.file[f].bytes == first.file[f].bytes);
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
