/* The rows of this family: all of functions.inc, and these. */
#include "ops/kernel/rows.h"

/* clang-format off: it takes `not` for an operator */
#define ROWS(ROW)                                                                                                      \
    ROW(add)                                                                                                           \
    ROW(and)                                                                                                           \
    ROW(bit_cast)                                                                                                      \
    ROW(bit_shift)                                                                                                     \
    ROW(bitwise_and)                                                                                                   \
    ROW(bitwise_not)                                                                                                   \
    ROW(bitwise_or)                                                                                                    \
    ROW(bitwise_xor)                                                                                                   \
    ROW(cast)                                                                                                          \
    ROW(cast_6)                                                                                                        \
    ROW(cast_like)                                                                                                     \
    ROW(cast_like_15)                                                                                                  \
    ROW(ceil)                                                                                                          \
    ROW(fused_elementwise)                                                                                             \
    ROW(clip)                                                                                                          \
    ROW(clip_6)                                                                                                        \
    ROW(clip_grad)                                                                                                     \
    ROW(div)                                                                                                           \
    ROW(equal)                                                                                                         \
    ROW(floor)                                                                                                         \
    ROW(gelu)                                                                                                          \
    ROW(gelu_grad)                                                                                                     \
    ROW(greater)                                                                                                       \
    ROW(greater_or_equal)                                                                                              \
    ROW(is_inf)                                                                                                        \
    ROW(is_nan)                                                                                                        \
    ROW(less)                                                                                                          \
    ROW(less_or_equal)                                                                                                 \
    ROW(max)                                                                                                           \
    ROW(mean)                                                                                                          \
    ROW(min)                                                                                                           \
    ROW(mod)                                                                                                           \
    ROW(mul)                                                                                                           \
    ROW(not )                                                                                                          \
    ROW(or)                                                                                                            \
    ROW(pow)                                                                                                           \
    ROW(pow_log)                                                                                                       \
    ROW(pow_slope)                                                                                                     \
    ROW(prelu)                                                                                                         \
    ROW(round)                                                                                                         \
    ROW(sign)                                                                                                          \
    ROW(sub)                                                                                                           \
    ROW(sum)                                                                                                           \
    ROW(swiglu)                                                                                                        \
    ROW(where)                                                                                                         \
    ROW(xor)
/* clang-format on */

ROWS(ZT_ROW_EXTERN)
#define LOOP(...)
#define UNARY(id, ...) ZT_ROW_EXTERN(id) ZT_ROW_EXTERN(id##_grad)
#include "ops/elementwise/functions.inc"

extern const struct zt_op *const zt_elementwise_rows[];
const struct zt_op *const zt_elementwise_rows[] = { ROWS(ZT_ROW_ADDRESS)
#define LOOP(...)
#define UNARY(id, ...) ZT_ROW_ADDRESS(id) ZT_ROW_ADDRESS(id##_grad)
#include "ops/elementwise/functions.inc"
                                                        NULL };
