/* Elementwise ops of two broadcast inputs: one loop for all of them, rows in binary.c (arithmetic), compare.c and
 * bitwise.c. */
#ifndef ZT_OPS_ELEMENTWISE_BINARY_H
#define ZT_OPS_ELEMENTWISE_BINARY_H

#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/kernel/shape.h"

struct zt_binary_rule {
    void (*f)(int64_t n, const double *x, const double *z, double *y);
    /* Both inputs integers or bool; `u`: they are uint64 in int64's clothes. NULL: they go through double. */
    void (*f_int)(int64_t n, bool u, const int64_t *x, const int64_t *z, int64_t *y);
};

/* Reference kernel: y[i] = f(x[i], z[i]) with x = input 0 and z = input 1 broadcast to the shape of output 0. Uses
 * f_int, where the rule has it, if both inputs are integers or bool. Returns true. */
bool zt_binary_run(const struct zt_call *call, const struct zt_binary_rule *rule);

/* y = F(a, b) in double. Macros, because the compiler vectorizes a loop only where the expression stands in it. */
#define BINARY_LOOP(id, F)                                                                                             \
    static void id(int64_t n, const double *x, const double *z, double *y) {                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double a = x[i], b = z[i];                                                                           \
            y[i] = F;                                                                                                  \
        }                                                                                                              \
    }
/* y = F(a, b, u) in int64. */
#define BINARY_INT_LOOP(id, F)                                                                                         \
    static void id(int64_t n, bool u, const int64_t *x, const int64_t *z, int64_t *y) {                                \
        (void)u;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const int64_t a = x[i], b = z[i];                                                                          \
            y[i] = F;                                                                                                  \
        }                                                                                                              \
    }

/* Row NAME whose reference kernel follows `id_rule`; SIMD and TYPED: its vector loops (elementwise_cpu.h); behind them,
 * more members. A macro, as it defines a function and a row. */
#define BINARY_ROW(id, NAME, DOMAIN, SINCE, TYPES, SAME, INFER, GRAD, FLAGS, SIMD, TYPED, ...)                         \
    static bool id##_run(const struct zt_call *call, struct zt_err *err) {                                             \
        (void)err;                                                                                                     \
        return zt_binary_run(call, &id##_rule);                                                                        \
    }                                                                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = DOMAIN,                                                                                              \
        .since = SINCE,                                                                                                \
        ZT_ONE_OUT(2, 2),                                                                                              \
        .flags = ZT_OP_POINTWISE | (FLAGS),                                                                            \
        .in_types = { TYPES, TYPES },                                                                                  \
        .same_type = SAME,                                                                                             \
        .infer = INFER,                                                                                                \
        .grad = GRAD,                                                                                                  \
        .detail = ZT_ELEMENTWISE_LOOPS(SIMD, TYPED),                                                                   \
        __VA_ARGS__.kernel = { [ZT_REF] = { .run = id##_run },                                                         \
                               [ZT_CPU] = ZT_ELEMENTWISE_CPU,                                                          \
                               [ZT_CUDA] = ZT_POINTWISE_CUDA },                                                        \
    };

#endif
