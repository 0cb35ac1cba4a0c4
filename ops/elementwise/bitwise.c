/* Bits of integers. Shifts by more than a word give zero (right shifts of signed numbers: their sign). */
#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/binary.h"

#include <stddef.h>
#include <string.h>

static int64_t shift_left(int64_t a, int64_t b) {
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}

static int64_t shift_right(int64_t a, int64_t b, bool u) {
    if (u)
        return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a >> b);
    return a >> (b < 0 || b > 63 ? 63 : b);
}

BINARY_INT_LOOP(and_i, a &b)
BINARY_INT_LOOP(or_i, a | b)
BINARY_INT_LOOP(xor_i, a ^ b)
BINARY_INT_LOOP(left_i, shift_left(a, b))
BINARY_INT_LOOP(right_i, shift_right(a, b, u))

static const struct zt_binary_rule bitwise_and_rule = { NULL, and_i }, bitwise_or_rule = { NULL, or_i },
                                   bitwise_xor_rule = { NULL, xor_i };
static const struct zt_binary_rule shift_rules[2] = { { NULL, left_i }, { NULL, right_i } };

BINARY_ROW(bitwise_and, "BitwiseAnd", "", 18, ZT_ANY_INT, 2, zt_infer_broadcast, NULL, ZT_OP_IN_PLACE | ZT_OP_LIGHT,
           none, and)
BINARY_ROW(bitwise_or, "BitwiseOr", "", 18, ZT_ANY_INT, 2, zt_infer_broadcast, NULL, ZT_OP_IN_PLACE | ZT_OP_LIGHT, none,
           or)
BINARY_ROW(bitwise_xor, "BitwiseXor", "", 18, ZT_ANY_INT, 2, zt_infer_broadcast, NULL, ZT_OP_IN_PLACE | ZT_OP_LIGHT,
           none, xor)

static bool shift_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const char *direction = zt_attr_text(g->nodes[node], "direction", "");
    if (strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0)
        return zt_node_fail(g, node, err, "attribute \"direction\" is \"%s\", wants LEFT or RIGHT", direction);
    return zt_infer_broadcast(g, node, err);
}

static bool shift_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return zt_binary_run(call, &shift_rules[strcmp(zt_attr_text(call->node, "direction", ""), "RIGHT") == 0]);
}

static const struct zt_attr_spec with_direction[] = { { "direction", ZT_ATTR_STRING, true }, { 0 } };

const struct zt_op zt_op_bit_shift = {
    .name = "BitShift",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(2, 2),
    .flags = ZT_OP_IN_PLACE | ZT_OP_LIGHT,
    .in_types = { ZT_ANY_INT, ZT_ANY_INT },
    .same_type = 1 << 1,
    .attrs = with_direction,
    .infer = shift_infer,
    .detail = ZT_ELEMENTWISE_LOOPS(none, left),
    .kernel = { [ZT_REF] = { .run = shift_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};
