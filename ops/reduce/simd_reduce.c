#include "ops/reduce/simd_reduce.h"
#include "ops/kernel/unrolled.h"

#include <math.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

#define BODY "ops/reduce/simd_reduce.inc"
#include "ops/cpu/simd_targets.inc"

zt_rows_function *const *zt_rows_functions(void) {
    return OF_MACHINE(folds);
}

zt_row_function *const *zt_row_functions(void) {
    return OF_MACHINE(row_folds);
}

const struct zt_ties_functions *zt_ties_functions(void) {
    return OF_MACHINE(&ties);
}
