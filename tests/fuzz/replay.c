// Runs the target that it is linked with once on each file named: libFuzzer's main for builds without libFuzzer.
#include "base/arena.h"
#include "base/file.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct zt_err err = { 0 };
        struct zt_file_map map;
        if (!zt_file_map(&map, argv[i], ZT_EXIT_DATA, &err)) {
            fprintf(stderr, "%s\n", err.text[0]);
            return 1;
        }
        uint8_t *exact = zt_malloc(map.size); /* of its own size, so that a sanitizer sees a byte read behind it */
        memcpy(exact, map.data, map.size);
        LLVMFuzzerTestOneInput(exact, map.size);
        free(exact);
        zt_file_unmap(&map);
    }
    return 0;
}
