/* Elementwise functions of one input without a derivative: tests, roundings, bits. */
#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/elementwise/kernels.h"
#include "ops/kernel/shape.h"

#include "ops/kernel/element_blocks.h"

#include <math.h>

static void each(const struct zt_call *call, const double *p, void (*f)(const double *p, int64_t n, double *v)) {
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    double v[ZT_ELEMENT_BLOCK];
    int64_t count = zt_shape_count(&y->shape);
    for (int64_t at = 0; at < count; at += ZT_ELEMENT_BLOCK) {
        int64_t n = count - at < ZT_ELEMENT_BLOCK ? count - at : ZT_ELEMENT_BLOCK;
        zt_load_block(x->dtype, x->data, at, 1, n, v);
        f(p, n, v);
        zt_store_block(y->dtype, y->data, at, 1, n, v);
    }
}

static bool infer_bool(struct zt_graph *g, int node, struct zt_err *err) {
    (void)err;
    zt_set_out(g, node, 0, ZT_BOOL, &zt_in(g, node, 0)->shape);
    return true;
}

static const struct zt_attr_spec is_inf_attrs[] = { { "detect_positive", ZT_ATTR_INT },
                                                    { "detect_negative", ZT_ATTR_INT },
                                                    { 0 } };

/* F: y from x; a, b: the first two attributes, 1 where absent. A macro, as it defines functions and a row, and F stands
 * in a vectorized loop. */
#define PLAIN_ROW(id, NAME, SINCE, TYPES, INFER, FLAGS, ATTRS, SIMD, TYPED, F)                                         \
    static void id##_f(const double *p, int64_t n, double *v) {                                                        \
        const double a = p[0], b = p[1];                                                                               \
        (void)a, (void)b;                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double x = v[i];                                                                                     \
            v[i] = F;                                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    static bool id##_run(const struct zt_call *call, struct zt_err *err) {                                             \
        (void)err;                                                                                                     \
        const struct zt_attr_spec *spec = ATTRS;                                                                       \
        double p[2] = { 1, 1 };                                                                                        \
        for (int i = 0; spec && i < 2 && spec[i].name; i++)                                                            \
            p[i] = (double)zt_attr_int(call->node, spec[i].name, 1);                                                   \
        each(call, p, id##_f);                                                                                         \
        return true;                                                                                                   \
    }                                                                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .flags = FLAGS,                                                                                                \
        .in_types = { TYPES },                                                                                         \
        .attrs = ATTRS,                                                                                                \
        .infer = INFER,                                                                                                \
        .detail = ZT_ELEMENTWISE_LOOPS(SIMD, TYPED),                                                                   \
        .kernel = { [ZT_REF] = { .run = id##_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },    \
    };

PLAIN_ROW(ceil, "Ceil", 6, ZT_ANY_FLOAT, zt_infer_first, ZT_OP_IN_PLACE | ZT_OP_LIGHT, NULL, ceil, none, ceil(x))
PLAIN_ROW(floor, "Floor", 6, ZT_ANY_FLOAT, zt_infer_first, ZT_OP_IN_PLACE | ZT_OP_LIGHT, NULL, floor, none, floor(x))
PLAIN_ROW(is_inf, "IsInf", 10, ZT_ANY_FLOAT, infer_bool, ZT_OP_LIGHT, is_inf_attrs, is_inf, none,
          (a != 0 && x == INFINITY) || (b != 0 && x == -INFINITY))
PLAIN_ROW(is_nan, "IsNaN", 9, ZT_ANY_FLOAT, infer_bool, ZT_OP_LIGHT, NULL, is_nan, none, isnan(x))
PLAIN_ROW(not, "Not", 1, ZT_BIT(ZT_BOOL), infer_bool, ZT_OP_IN_PLACE | ZT_OP_LIGHT, NULL, none, logical_not, x == 0)
PLAIN_ROW(round, "Round", 11, ZT_ANY_FLOAT, zt_infer_first, ZT_OP_IN_PLACE | ZT_OP_LIGHT, NULL, round, none,
          nearbyint(x)) /* halves to even */
PLAIN_ROW(sign, "Sign", 9, ZT_ANY_NUMBER, zt_infer_first, ZT_OP_IN_PLACE | ZT_OP_LIGHT, NULL, sign, sign,
          x > 0   ? 1
          : x < 0 ? -1
                  : x)

static bool bitwise_not_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_view *x = &call->in[0], *y = &call->out[0];
    int64_t bytes = zt_shape_count(&x->shape) * (int64_t)zt_dtype_bytes(x->dtype);
    for (int64_t i = 0; i < bytes; i++)
        ((uint8_t *)y->data)[i] = (uint8_t) ~((const uint8_t *)x->data)[i];
    return true;
}

const struct zt_op zt_op_bitwise_not = {
    .name = "BitwiseNot",
    .domain = "",
    .since = 18,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_IN_PLACE | ZT_OP_LIGHT,
    .in_types = { ZT_ANY_INT },
    .infer = zt_infer_first,
    .detail = ZT_ELEMENTWISE_LOOPS(none, not ),
    .kernel = { [ZT_REF] = { .run = bitwise_not_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },
};
