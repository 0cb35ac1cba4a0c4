#include "ops/relu_cpu.h"

#include "ops/elementwise_lanes.h"

/* What has the sign bit becomes 0, unless it is NaN. */
static void relu_bfloat(int64_t n, uint16_t *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] >= 0x8000 && y[i] <= 0xff80 ? 0 : y[i];
}

void zt_relu_cpu(enum zt_dtype dtype, int64_t n, void *y) {
    struct zt_lane_span span = { .a = y, .b = y, .y = y, .n = n, .a_step = 1, .b_step = 1 };
    if (dtype == ZT_BFLOAT16)
        relu_bfloat(n, y);
    else
        zt_lane_functions()[ZT_LANE_relu](&span);
}
