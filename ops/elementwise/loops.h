/* The vector loops of an elementwise row. */
#ifndef ZT_OPS_ELEMENTWISE_LOOPS_H
#define ZT_OPS_ELEMENTWISE_LOOPS_H

#include <stdbool.h>

struct zt_graph;
struct zt_pointwise; /* pointwise.h */

/* The vector loops of functions.inc. ZT_SIMD_none: no loop. */
enum zt_simd_op {
    ZT_SIMD_none,
#define LOOP(id, ...) ZT_SIMD_##id,
#include "ops/elementwise/loops.inc"
    ZT_SIMD_OPS
};

/* Loops in the type of the elements (simd_typed.h), by what they compute; bitwise and, or, xor, not; left and right:
 * shifts. */
enum zt_typed_op {
    ZT_TYPED_none,
    ZT_TYPED_add,
    ZT_TYPED_sub,
    ZT_TYPED_mul,
    ZT_TYPED_div,
    ZT_TYPED_mod,
    ZT_TYPED_fmod,
    ZT_TYPED_max,
    ZT_TYPED_min,
    ZT_TYPED_sum,
    ZT_TYPED_abs,
    ZT_TYPED_neg,
    ZT_TYPED_sign,
    ZT_TYPED_and,
    ZT_TYPED_or,
    ZT_TYPED_xor,
    ZT_TYPED_not,
    ZT_TYPED_left,
    ZT_TYPED_right,
    ZT_TYPED_equal,
    ZT_TYPED_less,
    ZT_TYPED_less_or_equal,
    ZT_TYPED_greater,
    ZT_TYPED_greater_or_equal,
    ZT_TYPED_logical_and,
    ZT_TYPED_logical_or,
    ZT_TYPED_logical_xor,
    ZT_TYPED_logical_not,
    ZT_TYPED_OPS
};

/* The vector loops of a row, zt_op.detail of every elementwise row: that of floats (`none`: it has none) and that of
 * other types (`none`). */
struct zt_elementwise {
    enum zt_simd_op simd;
    enum zt_typed_op typed;
    /* Its expression (pointwise.h), where that is not the loops'. False: the node has none. */
    bool (*expression)(const struct zt_graph *g, int node, struct zt_pointwise *to);
};
#define ZT_ELEMENTWISE_LOOPS(simd_, typed_)                                                                            \
    &(const struct zt_elementwise) {                                                                                   \
        ZT_SIMD_##simd_, ZT_TYPED_##typed_                                                                             \
    }

#endif
