// Hostile bytes as the model of `ztrain predict`.
#include "fuzz.h"

const size_t fuzz_choice_bytes = 0;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_eager("predict", data, size);
    return 0;
}
