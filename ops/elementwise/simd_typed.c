#include "ops/elementwise/simd_typed.h"

#include <math.h>
#include <string.h>

/* y and a may be one tensor, never shifted against each other. clang sees that itself, and asked to trust us it warns
 * of each loop that it has no vectors for. */
#if defined(__clang__)
#define EACH_ALONE
#else
#define EACH_ALONE _Pragma("GCC ivdep")
#endif

/* DO(end of the dtype's name, type, the unsigned type its arithmetic wraps in, bits, ...) */
#define INTEGERS(DO, ...)                                                                                              \
    DO(INT8, int8_t, uint32_t, 8, __VA_ARGS__)                                                                         \
    DO(INT16, int16_t, uint32_t, 16, __VA_ARGS__)                                                                      \
    DO(INT32, int32_t, uint32_t, 32, __VA_ARGS__)                                                                      \
    DO(INT64, int64_t, uint64_t, 64, __VA_ARGS__)                                                                      \
    DO(UINT8, uint8_t, uint32_t, 8, __VA_ARGS__)                                                                       \
    DO(UINT16, uint16_t, uint32_t, 16, __VA_ARGS__)                                                                    \
    DO(UINT32, uint32_t, uint32_t, 32, __VA_ARGS__)                                                                    \
    DO(UINT64, uint64_t, uint64_t, 64, __VA_ARGS__)

/* The result types of casts: DO(end of the dtype's name, type, conversion of an integer a, conversion of a float a,
 * ...) */
#define RESULTS(DO, ...)                                                                                               \
    DO(INT8, int8_t, a, whole(a), __VA_ARGS__)                                                                         \
    DO(INT16, int16_t, a, whole(a), __VA_ARGS__)                                                                       \
    DO(INT32, int32_t, a, whole(a), __VA_ARGS__)                                                                       \
    DO(INT64, int64_t, a, whole(a), __VA_ARGS__)                                                                       \
    DO(UINT8, uint8_t, a, whole(a), __VA_ARGS__)                                                                       \
    DO(UINT16, uint16_t, a, whole(a), __VA_ARGS__)                                                                     \
    DO(UINT32, uint32_t, a, whole(a), __VA_ARGS__)                                                                     \
    DO(UINT64, uint64_t, a, whole_unsigned(a), __VA_ARGS__)                                                            \
    DO(BOOL, uint8_t, a != 0, a != 0, __VA_ARGS__)                                                                     \
    DO(FLOAT, float, (double)a, a, __VA_ARGS__)                                                                        \
    DO(DOUBLE, double, a, a, __VA_ARGS__)

/* SAME(id, inputs, value): the result has the inputs' type T, whose arithmetic wraps in U; BITS is its width,
 * `negative` whether it has negative numbers. TEST: the result is bool. */
#define BELOW_ZERO(x) ((x) <= 0 && (x) != 0)
#define INTEGER_OPS(SAME, TEST)                                                                                        \
    SAME(add, 2, (U)a + (U)b)                                                                                          \
    SAME(sub, 2, (U)a - (U)b)                                                                                          \
    SAME(mul, 2, (U)a *(U)b)                                                                                           \
    SAME(div, 2, negative ? (U)signed_quotient((int64_t)a, (int64_t)b) : (U)quotient((uint64_t)a, (uint64_t)b))        \
    SAME(mod, 2, negative ? (U)floored((int64_t)a, (int64_t)b) : (U)remainder_of((uint64_t)a, (uint64_t)b))            \
    SAME(fmod, 2, negative ? (U)truncated((int64_t)a, (int64_t)b) : (U)remainder_of((uint64_t)a, (uint64_t)b))         \
    SAME(max, 2, a > b ? a : b)                                                                                        \
    SAME(min, 2, a < b ? a : b)                                                                                        \
    SAME(sum, 2, (U)a + (U)b)                                                                                          \
    SAME(abs, 1, BELOW_ZERO(a) ? 0 - (U)a : (U)a)                                                                      \
    SAME(neg, 1, 0 - (U)a)                                                                                             \
    SAME(sign, 1, (a > 0) - BELOW_ZERO(a))                                                                             \
    SAME(and, 2, a &b)                                                                                                 \
    SAME(or, 2, a | b)                                                                                                 \
    SAME(xor, 2, a ^ b)                                                                                                \
    SAME(not, 1, ~(U)a)                                                                                                \
    SAME(left, 2, BELOW_ZERO(b) || b >= BITS ? 0 : (U)a << ((U)b & (BITS - 1)))                                        \
    SAME(right, 2, (a >> (BELOW_ZERO(b) || b >= BITS ? (U)(BITS - 1) : (U)b)) >> (!negative && b >= BITS))             \
    TEST(equal, 2, a == b)                                                                                             \
    TEST(less, 2, a < b)                                                                                               \
    TEST(less_or_equal, 2, a <= b)                                                                                     \
    TEST(greater, 2, a > b)                                                                                            \
    TEST(greater_or_equal, 2, a >= b)
/* The loops of double. */
#define DOUBLE_OPS(SAME, TEST)                                                                                         \
    SAME(add, 2, a + b)                                                                                                \
    SAME(sub, 2, a - b)                                                                                                \
    SAME(mul, 2, a *b)                                                                                                 \
    SAME(div, 2, a / b)                                                                                                \
    TEST(equal, 2, a == b)                                                                                             \
    TEST(less, 2, a < b)                                                                                               \
    TEST(less_or_equal, 2, a <= b)                                                                                     \
    TEST(greater, 2, a > b)                                                                                            \
    TEST(greater_or_equal, 2, a >= b)

/* The loops of bool, whose bytes are true where they are not 0. */
#define BOOL_OPS(TEST)                                                                                                 \
    TEST(logical_and, 2, (a != 0) & (b != 0))                                                                          \
    TEST(logical_or, 2, (a | b) != 0)                                                                                  \
    TEST(logical_xor, 2, (a != 0) ^ (b != 0))                                                                          \
    TEST(logical_not, 1, a == 0)

static const int inputs_of[ZT_TYPED_OPS] = {
#define OP(id, INPUTS, VALUE) [ZT_TYPED_##id] = INPUTS,
    INTEGER_OPS(OP, OP) BOOL_OPS(OP)
#undef OP
};

/* Division of 64 bits takes several times that of 32. By 0 it gives 0. */
static inline uint64_t quotient(uint64_t a, uint64_t b) {
    if (b == 0)
        return 0;
    return (a | b) >> 32 ? a / b : (uint32_t)a / (uint32_t)b;
}
static inline uint64_t remainder_of(uint64_t a, uint64_t b) {
    if (b == 0)
        return 0;
    return (a | b) >> 32 ? a % b : (uint32_t)a % (uint32_t)b;
}
static inline int64_t signed_quotient(int64_t a, int64_t b) {
    if (a >= 0 && b >= 0)
        return (int64_t)quotient((uint64_t)a, (uint64_t)b);
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
/* a mod b with the sign of a, and with that of b */
static inline int64_t truncated(int64_t a, int64_t b) {
    if (a >= 0 && b >= 0)
        return (int64_t)remainder_of((uint64_t)a, (uint64_t)b);
    return b == 0 || b == -1 ? 0 : a % b;
}
static inline int64_t floored(int64_t a, int64_t b) {
    const int64_t r = truncated(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* As zt_store_double converts: truncated, saturated, and NaN to the lowest number. */
static inline int64_t whole(double x) {
    return x >= 0x1p63 ? INT64_MAX : x > -0x1p63 ? (int64_t)x : INT64_MIN;
}
static inline uint64_t whole_unsigned(double x) {
    return x >= 0x1p64 ? UINT64_MAX : x > 0 ? (uint64_t)x : 0;
}

struct typed {
    zt_typed_function *loop[ZT_TYPED_OPS][ZT_DTYPES], *cast[ZT_DTYPES][ZT_DTYPES];
};

#define BODY "ops/elementwise/simd_typed.inc"
#include "ops/cpu/simd_targets.inc"

/* The row's loop, or what an attribute of the node makes of it. */
static enum zt_typed_op find_op(const struct zt_node *node) {
    const struct zt_elementwise *loops = node->op->detail;
    const enum zt_typed_op op = loops ? loops->typed : ZT_TYPED_none;
    if (op == ZT_TYPED_left && strcmp(zt_attr_text(node, "direction", ""), "RIGHT") == 0)
        return ZT_TYPED_right;
    return op == ZT_TYPED_mod && zt_attr_int(node, "fmod", 0) ? ZT_TYPED_fmod : op;
}

zt_typed_function *zt_typed_loop(const struct zt_node *node, enum zt_dtype dtype, int *inputs) {
    const enum zt_typed_op op = find_op(node);
    if (op == ZT_TYPED_none || dtype < 0 || dtype >= ZT_DTYPES)
        return NULL;
    *inputs = inputs_of[op];
    return OF_MACHINE(&typed)->loop[op][dtype];
}

zt_typed_function *zt_typed_cast(enum zt_dtype from, enum zt_dtype to) {
    return from < ZT_DTYPES && to < ZT_DTYPES ? OF_MACHINE(&typed)->cast[from][to] : NULL;
}

/* ---- as text ---- */

#define TEXT(id, INPUTS, VALUE) [ZT_TYPED_##id] = { #VALUE, INPUTS },
static const struct zt_typed_text integer_texts[ZT_TYPED_OPS] = { INTEGER_OPS(TEXT, TEXT) };
static const struct zt_typed_text double_texts[ZT_TYPED_OPS] = { DOUBLE_OPS(TEXT, TEXT) };
static const struct zt_typed_text bool_texts[ZT_TYPED_OPS] = { BOOL_OPS(TEXT)[ZT_TYPED_equal] = { "a == b", 2 } };
#undef TEXT

struct zt_typed_text zt_typed_text(const struct zt_node *node, enum zt_dtype dtype) {
    const enum zt_typed_op i = find_op(node);
    const struct zt_typed_text none = { 0 };
    return zt_dtype_in(dtype, ZT_ANY_INT) ? integer_texts[i]
           : dtype == ZT_DOUBLE           ? double_texts[i]
           : dtype == ZT_BOOL             ? bool_texts[i]
                                          : none;
}

/* Casts to a half type compute a float, which is then rounded. */
#define RESULT_TEXT(ID, TYPE, OF_INTEGER, OF_FLOAT, ...) [ZT_##ID] = { #OF_INTEGER, #OF_FLOAT },
static const struct {
    const char *of_integer, *of_float;
} cast_texts[ZT_DTYPES] = {
    RESULTS(RESULT_TEXT, )[ZT_FLOAT16] = { "(double)a", "a" },
    [ZT_BFLOAT16] = { "(double)a", "a" },
};

struct zt_typed_text zt_typed_cast_text(enum zt_dtype from, enum zt_dtype to) {
    const bool floats = zt_dtype_in(from, ZT_ANY_FLOAT);
    if (!zt_dtype_in(from, ZT_ANY_TYPE))
        return (struct zt_typed_text){ 0 };
    return (struct zt_typed_text){ floats ? cast_texts[to].of_float : cast_texts[to].of_integer, 1 };
}
