#include "ops/reduce/simd_reduce.h"

#include <math.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

/* Partial results are kept in registers, not in an array: the loops over them must unroll at every optimisation
 * level. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 32")
#endif

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
