/* Products of quantized matrices, as products of floats:
 *
 *     DynamicQuantizeMatMul  y = a' b' + bias, where a' is a rounded to 8 bits in its own range (DynamicQuantizeLinear)
 *     MatMulIntegerToFloat   y = a' b' + bias
 *     QGemm                  y = alpha (a' b' + c'), where c' has the scale of the products; rounded again if it has
 *                            a scale
 *
 * a', b': scale (x - zero). onnxruntime sums integers: results agree to the rounding of floats. The gradient of a in
 * DynamicQuantizeMatMul is that of the product with b', as rounding has derivative 1 (ops/quantize/fake_quantize.c). */
#include "ops/lowered/quantized.h"

/* b is [.., rows, columns], with a scale for all or for each column. */
enum { COLUMNS = -1 };

/* a rounded to the 8 bits of its own range. Rounding both the numbers and the zero point may lead one step above the
 * range, and less than a step of the range's ends is no reason to stop gradients: rounded to 16 bits, then limited. */
static int rounded(struct zt_lowering *l, int a) {
    const struct zt_attr to_int16 = { .name = "to", .type = ZT_ATTR_INT, .i = ZT_INT16 },
                         to_float = { .name = "to", .type = ZT_ATTR_INT, .i = ZT_FLOAT };
    int range[3] = { -1, -1, -1 }; /* a in 8 bits, scale, zero point */
    zt_lower_all(l, &(struct zt_expand_node){ "DynamicQuantizeLinear", &a, 1 }, range, 3);
    const int zero = ZT_LOWER_WITH(l, -1, "Cast", &to_int16, 1, range[2]);
    const int q = ZT_LOWER(l, -1, "QuantizeLinear", a, range[1], zero);
    const int x = zt_lower_dequantize(l, (const int[]){ q, range[1], zero }, 1);
    const int steps = ZT_LOWER(l, -1, "Sub", zt_graph_add_float(l->g, NULL, ZT_FLOAT, 255),
                               ZT_LOWER_WITH(l, -1, "Cast", &to_float, 1, range[2]));
    const int most = ZT_LOWER(l, -1, "Mul", steps, range[1]);
    return ZT_LOWER(l, -1, "Where", ZT_LOWER(l, -1, "Greater", x, most), most, x);
}

static void dynamic_matmul(struct zt_lowering *l) {
    const int a = rounded(l, l->n->in[0]);
    const int b = zt_lower_dequantize(l, (const int[]){ l->n->in[1], l->n->in[2], zt_lower_in(l, 3) }, COLUMNS);
    zt_lower_add(l, l->n->out[0], ZT_LOWER(l, -1, "MatMul", a, b), zt_lower_in(l, 4));
}

static void integer_matmul(struct zt_lowering *l) {
    const int a = zt_lower_dequantize(l, (const int[]){ l->n->in[0], l->n->in[2], zt_lower_in(l, 4) }, COLUMNS);
    const int b = zt_lower_dequantize(l, (const int[]){ l->n->in[1], l->n->in[3], zt_lower_in(l, 5) }, COLUMNS);
    zt_lower_add(l, l->n->out[0], ZT_LOWER(l, -1, "MatMul", a, b), zt_lower_in(l, 6));
}

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE, Y_ZERO };

static void quantized_gemm(struct zt_lowering *l) {
    const int64_t trans_b = zt_attr_int(l->n, "transB", 0);
    const float alpha = zt_attr_float(l->n, "alpha", 1);
    const struct zt_attr attrs[] = {
        { .name = "transA", .type = ZT_ATTR_INT, .i = zt_attr_int(l->n, "transA", 0) },
        { .name = "transB", .type = ZT_ATTR_INT, .i = trans_b },
        { .name = "alpha", .type = ZT_ATTR_FLOAT, .f = alpha },
        { .name = "beta", .type = ZT_ATTR_FLOAT, .f = alpha },
    };
    const bool rounds = zt_lower_in(l, Y_SCALE) >= 0;
    const int a = zt_lower_dequantize(l, &l->n->in[A], 1), b = zt_lower_dequantize(l, &l->n->in[B], trans_b ? 0 : 1);
    const int c =
        zt_lower_in(l, C) < 0
            ? -1
            : zt_lower_dequantize(
                  l, (const int[]){ l->n->in[C], ZT_LOWER(l, -1, "Mul", l->n->in[A_SCALE], l->n->in[B_SCALE]), -1 },
                  COLUMNS);
    const int y = zt_lower(l, rounds ? -1 : l->n->out[0],
                           &(struct zt_expand_node){ "Gemm", (const int[]){ a, b, c }, c < 0 ? 2 : 3, attrs, 4 });
    if (rounds)
        zt_lower_quantize(l, y, l->n->in[Y_SCALE], zt_lower_in(l, Y_ZERO), zt_lower_first(l)->dtype);
}

ZT_LOWERED(dynamic_matmul)
ZT_LOWERED(integer_matmul)
ZT_LOWERED(quantized_gemm)

static const struct zt_attr_spec gemm_attrs[] = {
    { "alpha", ZT_ATTR_FLOAT }, { "transA", ZT_ATTR_INT }, { "transB", ZT_ATTR_INT }, { 0 }
};

enum { BYTES = ZT_MICROSOFT_BYTES, FLOAT = ZT_BIT(ZT_FLOAT) };

const struct zt_op zt_op_dynamic_quantize_matmul = {
    .name = "DynamicQuantizeMatMul",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(3, 5),
    .in_types = { FLOAT, BYTES, FLOAT, BYTES, FLOAT },
    .scale_in = 1 << 2,
    .expand = dynamic_matmul_expand,
};
const struct zt_op zt_op_matmul_integer_to_float = {
    .name = "MatMulIntegerToFloat",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(4, 7),
    .in_types = { BYTES, BYTES, FLOAT, FLOAT, BYTES, BYTES, FLOAT },
    .scale_in = 1 << 2 | 1 << 3,
    .expand = integer_matmul_expand,
};
const struct zt_op zt_op_quantized_gemm = {
    .name = "QGemm",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(6, 9),
    .in_types = { BYTES, FLOAT, BYTES, BYTES, FLOAT, BYTES, ZT_BIT(ZT_INT32), FLOAT | BYTES },
    .attrs = gemm_attrs,
    .scale_in = 1 << A_SCALE | 1 << B_SCALE | 1 << Y_SCALE,
    .expand = quantized_gemm_expand,
};
