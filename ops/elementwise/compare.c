/* Comparisons and logic of two broadcast inputs: the result is bool, gradients stop. */
#include "ops/elementwise/binary.h"

BINARY_LOOP(equal_f, a == b)
BINARY_INT_LOOP(equal_i, a == b)
BINARY_LOOP(less_f, a < b)
BINARY_INT_LOOP(less_i, u ? (uint64_t)a < (uint64_t)b : a < b)
BINARY_LOOP(less_or_equal_f, a <= b)
BINARY_INT_LOOP(less_or_equal_i, u ? (uint64_t)a <= (uint64_t)b : a <= b)
BINARY_LOOP(greater_f, a > b)
BINARY_INT_LOOP(greater_i, u ? (uint64_t)a > (uint64_t)b : a > b)
BINARY_LOOP(greater_or_equal_f, a >= b)
BINARY_INT_LOOP(greater_or_equal_i, u ? (uint64_t)a >= (uint64_t)b : a >= b)
BINARY_LOOP(and_f, a != 0 && b != 0)
BINARY_LOOP(or_f, a != 0 || b != 0)
BINARY_LOOP(xor_f, (a != 0) != (b != 0))

static const struct zt_binary_rule equal_rule = { equal_f, equal_i }, less_rule = { less_f, less_i },
                                   less_or_equal_rule = { less_or_equal_f, less_or_equal_i },
                                   greater_rule = { greater_f, greater_i },
                                   greater_or_equal_rule = { greater_or_equal_f, greater_or_equal_i },
                                   and_rule = { and_f, NULL }, or_rule = { or_f, NULL }, xor_rule = { xor_f, NULL };

BINARY_ROW(and, "And", "", 7, ZT_BIT(ZT_BOOL), 2, zt_infer_broadcast_bool, NULL, ZT_OP_LIGHT, none, logical_and)
BINARY_ROW(equal, "Equal", "", 7, ZT_ANY_TYPE, 2, zt_infer_broadcast_bool, NULL, ZT_OP_LIGHT, equal, equal)
BINARY_ROW(greater, "Greater", "", 7, ZT_ANY_NUMBER, 2, zt_infer_broadcast_bool, NULL, ZT_OP_LIGHT, greater, greater)
BINARY_ROW(greater_or_equal, "GreaterOrEqual", "", 12, ZT_ANY_NUMBER, 2, zt_infer_broadcast_bool, NULL, ZT_OP_LIGHT,
           greater_or_equal, greater_or_equal)
BINARY_ROW(less, "Less", "", 7, ZT_ANY_NUMBER, 2, zt_infer_broadcast_bool, NULL, ZT_OP_LIGHT, less, less)
BINARY_ROW(less_or_equal, "LessOrEqual", "", 12, ZT_ANY_NUMBER, 2, zt_infer_broadcast_bool, NULL, ZT_OP_LIGHT,
           less_or_equal, less_or_equal)
BINARY_ROW(or, "Or", "", 7, ZT_BIT(ZT_BOOL), 2, zt_infer_broadcast_bool, NULL, ZT_OP_LIGHT, none, logical_or)
BINARY_ROW(xor, "Xor", "", 7, ZT_BIT(ZT_BOOL), 2, zt_infer_broadcast_bool, NULL, ZT_OP_LIGHT, none, logical_xor)
