/* ONNX function bodies of ztrain.FakeQuantize and its gradient (formulas in fake_quantize.c), in plain arithmetic,
 * since the opset of function bodies has QuantizeLinear for 8 bits alone. A tensor is [outer, length, inner] there. */
#include "ops/quantize/kernels.h"
#include "ops/quantize/quantize.h"

#include <string.h>

/* Refuses what the opset has no types for. */
static bool check_types(const struct zt_graph *g, int node, const struct zt_quantize *q, int first,
                        struct zt_err *err) {
    const struct zt_value *zero = zt_in(g, node, first + 2);
    const unsigned casts = ZT_BIT(ZT_INT8) | ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT16) | ZT_BIT(ZT_UINT16);
    if (!q->integer)
        return zt_node_fail(g, node, err, "cannot be emitted: a quantization to %s has no form in opset %d",
                            zt_dtype_name(q->type), ZT_FUNCTION_BODY_OPSET);
    if (zero && !zero->data && !zt_dtype_in(zero->dtype, casts))
        return zt_node_fail(g, node, err, "cannot be emitted: a computed zero point of type %s has no form in opset %d",
                            zt_dtype_name(zero->dtype), ZT_FUNCTION_BODY_OPSET);
    if (!zt_dtype_in(zt_in(g, node, first + 1)->dtype, ZT_ANY_FLOAT))
        return zt_node_fail(g, node, err, "cannot be emitted: a scale of type %s has no form in opset %d",
                            zt_dtype_name(zt_in(g, node, first + 1)->dtype), ZT_FUNCTION_BODY_OPSET);
    return true;
}

static const char *slices(struct zt_function_body *b, const struct zt_quantize *q) {
    return zt_function_body_list(b, (const int64_t[]){ q->outer, q->length, q->inner }, 3);
}

static int64_t blocks_of(const struct zt_quantize *q) {
    return q->length / q->block + (q->length % q->block != 0);
}

/* `name`, with a number for each scale, becomes a tensor that broadcasts to [outer, length, inner]. */
static void spread(struct zt_function_body *b, const struct zt_quantize *q, const char *name) {
    if (q->scales == 1 && !q->step && !q->inner_step) {
        zt_function_body_add(b, "%s = Reshape(%s, [1, 1, 1])", name, name);
        return;
    }
    if (!q->inner_step) {
        zt_function_body_add(b, "%s = Reshape(%s, %s)", name, name,
                             zt_function_body_list(b, (const int64_t[]){ 1, q->length, 1 }, 3));
        return;
    }
    int64_t *block = ZT_NEW_N(b->arena, int64_t, q->length + 1);
    for (int64_t k = 0; k < q->length; k++)
        block[k] = k / q->block;
    zt_function_body_int64s(b, "blocks", &(struct zt_shape){ 1, { q->length } }, block);
    zt_function_body_add(b, "%s = Gather<axis=1>(Reshape(%s, %s), blocks)", name, name,
                         zt_function_body_list(b, (const int64_t[]){ q->outer, blocks_of(q), q->inner }, 3));
}

/* z: of the node's zero point, or 0. */
static void add_zero(struct zt_function_body *b, const struct zt_quantize *q, int first) {
    const struct zt_value *zero = zt_in(b->g, b->node, first + 2);
    if (!zero) {
        zt_function_body_number(b, "z", 0);
        return;
    }
    if (!zero->data) {
        zt_function_body_add(b, "z = Cast<to=T>(z)");
    } else {
        const int64_t count = zt_shape_count(&zero->shape);
        double *values = ZT_NEW_N(b->arena, double, count + 1);
        for (int64_t i = 0; i < count; i++)
            values[i] = zt_load_double(zero->dtype, zero->data, i);
        zt_function_body_doubles(b, "z", &zero->shape, values);
    }
    spread(b, q, "z");
}

/* v, z and q as [outer, length, inner], s and z spread. */
static void add_quantized(struct zt_function_body *b, const struct zt_quantize *q, int first) {
    const char *half = q->precision == ZT_FLOAT16 ? "float16" : q->precision == ZT_BFLOAT16 ? "bfloat16" : NULL;
    add_zero(b, q, first);
    spread(b, q, "s");
    zt_function_body_add(b, "x = Reshape(Cast<to=T>(x), %s)", slices(b, q));
    if (half)
        zt_function_body_add(b, "v = Cast<to=T>(Cast<to=%s>(x) / Cast<to=%s>(s))", half, half);
    else
        zt_function_body_add(b, "v = x / s");
    zt_function_body_number(b, "low", q->low);
    zt_function_body_number(b, "high", q->high);
    zt_function_body_add(b, "q = Clip(Round(v) + z, low, high)");
}

ZT_FUNCTION_BODY(zt_fake_quantize_function_body) {
    struct zt_quantize q;
    if (!zt_quantize_read(g, node, 0, &q, err) || !check_types(g, node, &q, 0, err))
        return false;
    const struct zt_value *zero = zt_in(g, node, 2);
    zt_function_body_names(b, zero && !zero->data ? "x, s, z -> y" : "x, s, _ -> y");
    add_quantized(b, &q, 0);
    zt_function_body_add(b, "y = Reshape((q - z) * s, %s)", zt_body_out(b, 0));
    return true;
}

/* Sums over the elements of each scale. */
static void add_scale_gradient(struct zt_function_body *b, const struct zt_quantize *q) {
    if (!q->inner_step) {
        zt_function_body_add(b, "ds = ReduceSum(ds, %s)", q->step ? "[0, 2]" : "[0, 1, 2]");
    } else { /* by a matrix of ones that says which elements along the axis are of a block */
        const int64_t blocks = blocks_of(q);
        double *of = ZT_NEW_N(b->arena, double, blocks * q->length + 1);
        for (int64_t k = 0; k < q->length; k++)
            of[k / q->block * q->length + k] = 1;
        zt_function_body_doubles(b, "of", &(struct zt_shape){ 2, { blocks, q->length } }, of);
        zt_function_body_add(b, "ds = MatMul(of, ds)");
    }
    zt_function_body_number(b, "factor", zt_quantize_scale_factor(q));
    zt_function_body_add(b, "ds = Reshape(factor * ds, %s)", zt_body_out(b, 1));
}

ZT_FUNCTION_BODY(zt_fake_quantize_grad_function_body) {
    struct zt_quantize q;
    if (!zt_quantize_read(g, node, 1, &q, err) || !check_types(g, node, &q, 1, err))
        return false;
    const struct zt_value *zero = zt_in(g, node, 3);
    zt_function_body_names(b, zero && !zero->data ? "dy, x, s, z -> dx, ds" : "dy, x, s, _ -> dx, ds");
    add_quantized(b, &q, 1);
    zt_function_body_number(b, "none", 0);
    zt_function_body_add(b, "dy = Reshape(dy, %s); passes = And(GreaterOrEqual(v, low - z), LessOrEqual(v, high - z))",
                         slices(b, &q));
    if (zt_function_body_wants(b, 0))
        zt_function_body_add(b, "dx = Reshape(Where(passes, dy, none), %s)", zt_body_out(b, 0));
    if (!zt_function_body_wants(b, 1))
        return true;
    zt_function_body_add(b, "ds = dy * (q - z - Where(passes, v, none))");
    add_scale_gradient(b, &q);
    return true;
}
