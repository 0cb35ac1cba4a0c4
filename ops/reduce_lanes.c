#include "ops/reduce_lanes.h"

#include <math.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* functions that take vectors are all inlined, so no ABI is involved */

#define BODY "ops/reduce_body.inc"
#include "ops/lanes_targets.inc"

zt_rows_function *const *zt_rows_functions(void) {
    return OF_MACHINE(folds);
}
