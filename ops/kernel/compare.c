#include "ops/kernel/compare.h"

#include <math.h>

int zt_compare_elements(enum zt_dtype dtype, const void *data, int64_t i, int64_t j) {
    if (dtype == ZT_UINT64) {
        uint64_t a = ((const uint64_t *)data)[i], b = ((const uint64_t *)data)[j];
        return (a > b) - (a < b);
    }
    if (!zt_dtype_in(dtype, ZT_ANY_FLOAT)) {
        int64_t a = zt_load_int(dtype, data, i), b = zt_load_int(dtype, data, j);
        return (a > b) - (a < b);
    }
    double a = zt_load_double(dtype, data, i), b = zt_load_double(dtype, data, j);
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}
