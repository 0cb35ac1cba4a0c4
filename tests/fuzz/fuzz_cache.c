// Hostile bytes as a file of the disk cache, for a key that is its own first line; and as content that is kept.
#include "base/arena.h"
#include "base/disk_cache.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 40 }; /* bytes in front of the key */

static char *key_of(const uint8_t *data, size_t size) {
    size_t from = size < HEADER ? size : HEADER, n = 0;
    while (from + n < size && data[from + n] > ' ')
        n++;
    char *key = zt_calloc(n + 1, 1);
    memcpy(key, data + from, n);
    return key;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_text read = { 0 }, kept = { 0 }, again = { 0 };
    char path[300], *key = key_of(data, size);
    snprintf(path, sizeof path, "%s/kept", fuzz_folder());
    if (zt_disk_cache_read(fuzz_file(data, size), key, &read))
        fuzz_promise(read.length + HEADER + strlen(key) == size);
    zt_text_add_bytes(&kept, data, size);
    if (size) { /* an empty content is not kept */
        fuzz_promise(zt_disk_cache_write(path, key, &kept, &err) && zt_disk_cache_read(path, key, &again));
        fuzz_promise(again.length == size && memcmp(again.at, data, size) == 0);
    }
    zt_text_finish(&again);
    zt_text_finish(&kept);
    zt_text_finish(&read);
    free(key);
    return 0;
}
