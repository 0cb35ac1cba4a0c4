#include "ops/elementwise/activation_cpu.h"

#include "ops/elementwise/elementwise_cpu.h"

enum { BLOCK = 512 }; /* elements that are converted at a time */

bool zt_activation_of(const struct zt_node *node, const struct zt_op *op, struct zt_activation *to) {
    float number[2];
    to->run = zt_elementwise_loop(node, op, number, &to->keeps_zero);
    to->u = number[0];
    to->v = number[1];
    return to->run != NULL;
}

static void run_floats(const struct zt_activation *f, int64_t n, const float *x, float *y) {
    const struct zt_simd_span span = { .a = x, .b = x, .y = y, .n = n, .a_step = 1, .b_step = 1, .u = f->u, .v = f->v };
    f->run(&span);
}

void zt_activation_run(const struct zt_activation *f, enum zt_dtype dtype, int64_t n, const void *x, void *y) {
    const size_t bytes = zt_dtype_bytes(dtype);
    float block[BLOCK];
    if (dtype == ZT_FLOAT)
        run_floats(f, n, x, y);
    for (int64_t at = 0, count; dtype != ZT_FLOAT && at < n; at += count) {
        count = n - at < BLOCK ? n - at : BLOCK;
        zt_simd_load(dtype, (const char *)x + (size_t)at * bytes, count, block);
        run_floats(f, count, block, block);
        zt_simd_store(dtype, block, count, (char *)y + (size_t)at * bytes);
    }
}
