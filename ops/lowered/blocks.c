/* Weights of 2, 4 or 8 bits with a scale and a zero point for each block of a row:
 *
 *     w[n, k] = scale[n, k / block_size] (q[n, k] - zero[n, k / block_size])
 *
 *     MatMulNBits           y = a w^T + bias        q [N, blocks, block_size * bits / 8] of bytes, [N, K] of numbers
 *     GatherBlockQuantized  y = w[indices]          q [rows, columns], of bytes: [rows, columns * bits / 8]
 *
 * The first number of a byte is in its lowest bits. Zero points are numbers of the type of the scales, or packed like
 * q; without them they are 2^(bits - 1). The weights are integers, which do not train. */
#include "ops/lowered/lowering.h"

struct blocks {
    int64_t bits, size;
    enum zt_dtype dtype; /* of the scales */
    bool packed;         /* zero points are bytes that hold several */
};

static int unsqueeze_last(struct zt_lowering *l, int value) {
    return ZT_LOWER(l, -1, "Unsqueeze", value, zt_lower_shape(l, -1));
}

static int byte(struct zt_lowering *l, int value) {
    const uint8_t bits = (uint8_t)value;
    return zt_graph_add_constant(l->g, NULL, ZT_UINT8, &(struct zt_shape){ 0 }, &bits);
}

/* The numbers in each byte along a new last axis. */
static int unpack(struct zt_lowering *l, int bytes, int64_t bits) {
    const struct zt_attr right = { .name = "direction", .type = ZT_ATTR_STRING, .s = "RIGHT" },
                         last = { .name = "axis", .type = ZT_ATTR_INT, .i = -1 };
    int part[4] = { -1, -1, -1, -1 };
    const int count = (int)(8 / bits);
    for (int i = 0; i < count; i++) {
        const int shifted = ZT_LOWER_WITH(l, -1, "BitShift", &right, 1, bytes, byte(l, i * (int)bits));
        part[i] = unsqueeze_last(l, ZT_LOWER(l, -1, "BitwiseAnd", shifted, byte(l, (1 << bits) - 1)));
    }
    return zt_lower(l, -1, &(struct zt_expand_node){ "Concat", part, count, &last, 1 });
}

static int as_scales(struct zt_lowering *l, const struct blocks *b, int value) {
    const struct zt_attr to = { .name = "to", .type = ZT_ATTR_INT, .i = b->dtype };
    return ZT_LOWER_WITH(l, -1, "Cast", &to, 1, value);
}

static int middle(struct zt_lowering *l, const struct blocks *b) {
    return zt_graph_add_float(l->g, NULL, b->dtype, 1 << (b->bits - 1));
}

/* scale (q - zero) of q [.., blocks, size] and scales and zero points that broadcast to it. */
static int dequantize(struct zt_lowering *l, const struct blocks *b, int q, int scales, int zeros) {
    return ZT_LOWER(l, -1, "Mul", ZT_LOWER(l, -1, "Sub", as_scales(l, b, q), zeros), scales);
}

static bool are_bits(struct zt_lowering *l, const struct blocks *b) {
    if (b->bits != 2 && b->bits != 4 && b->bits != 8)
        ZT_LOWER_FAIL(l, "weights of %lld bits are not supported: 2, 4 or 8", (long long)b->bits);
    return !l->failed;
}

/* Elements 0 to count - 1 of the last axis of [rows, length]. */
static int first_columns(struct zt_lowering *l, int value, int64_t length, int64_t count) {
    return length == count
               ? value
               : ZT_LOWER(l, -1, "Slice", value, zt_lower_shape(l, 0), zt_lower_shape(l, count), zt_lower_shape(l, 1));
}

/* Zero points [rows, blocks, 1] of [rows, blocks], or of bytes that hold several in each row. */
static int zeros_of(struct zt_lowering *l, const struct blocks *b, int value, int64_t rows, int64_t blocks) {
    const int64_t each = 8 / b->bits, bytes = blocks / each + (blocks % each != 0);
    if (!b->packed)
        return as_scales(l, b, ZT_LOWER(l, -1, "Reshape", value, zt_lower_shape(l, rows, blocks, 1)));
    const int apart = ZT_LOWER(l, -1, "Reshape",
                               unpack(l, ZT_LOWER(l, -1, "Reshape", value, zt_lower_shape(l, rows, bytes)), b->bits),
                               zt_lower_shape(l, rows, bytes * each));
    return as_scales(l, b, unsqueeze_last(l, first_columns(l, apart, bytes * each, blocks)));
}

/* ---- MatMulNBits ---- */

enum { A, B, SCALES, ZEROS, GROUPS, BIAS };

static void matmul_bits(struct zt_lowering *l) {
    static const int64_t order[] = { 1, 0 };
    const struct zt_attr perm = { .name = "perm", .type = ZT_ATTR_INTS, .count = 2, .ints = order };
    const struct zt_value *zeros = ZEROS < l->n->in_count ? zt_in(l->g, l->x->node, ZEROS) : NULL;
    const struct blocks b = { .bits = zt_attr_int(l->n, "bits", 4),
                              .size = zt_attr_int(l->n, "block_size", 0),
                              .dtype = zt_lower_first(l)->dtype,
                              .packed = zeros && zeros->dtype == ZT_UINT8 };
    const int64_t k = zt_attr_int(l->n, "K", 0), n = zt_attr_int(l->n, "N", 0);
    zt_lower_refuse_in(l, GROUPS, GROUPS, "of groups");
    if (zt_attr_int(l->n, "weight_prepacked", 0))
        ZT_LOWER_FAIL(l, "weight_prepacked is not supported");
    if (k < 1 || n < 1 || b.size < 1 || b.size > INT32_MAX || k > INT32_MAX)
        ZT_LOWER_FAIL(l, "wants K, N and block_size that are sizes of a matrix");
    if (!are_bits(l, &b))
        return;
    const int64_t blocks = k / b.size + (k % b.size != 0);
    const int q = ZT_LOWER(l, -1, "Reshape", unpack(l, l->n->in[B], b.bits), zt_lower_shape(l, n, blocks, b.size)),
              scales = ZT_LOWER(l, -1, "Reshape", l->n->in[SCALES], zt_lower_shape(l, n, blocks, 1)),
              zero = zeros ? zeros_of(l, &b, zeros->id, n, blocks) : middle(l, &b);
    const int all =
        ZT_LOWER(l, -1, "Reshape", dequantize(l, &b, q, scales, zero), zt_lower_shape(l, n, blocks * b.size));
    const int w = ZT_LOWER_WITH(l, -1, "Transpose", &perm, 1, first_columns(l, all, blocks * b.size, k));
    zt_lower_add(l, l->n->out[0], ZT_LOWER(l, -1, "MatMul", l->n->in[A], w), zt_lower_in(l, BIAS));
}

/* ---- GatherBlockQuantized ---- */

enum { DATA, INDICES, TABLE_SCALES, TABLE_ZEROS };

static void gather_blocks(struct zt_lowering *l) {
    const struct zt_value *data = zt_lower_first(l), *indices = zt_in(l->g, l->x->node, INDICES),
                          *scales = zt_in(l->g, l->x->node, TABLE_SCALES);
    const bool bytes = data->dtype == ZT_UINT8;
    const struct blocks b = { .bits = bytes ? zt_attr_int(l->n, "bits", 4) : 4,
                              .size = zt_attr_int(l->n, "block_size", 128),
                              .dtype = scales->dtype,
                              .packed = bytes };
    const int64_t along = zt_attr_int(l->n, "quantize_axis", 1);
    if (data->shape.rank != 2 || scales->shape.rank != 2 || zt_attr_int(l->n, "gather_axis", 0) != 0 ||
        (along != 1 && along != -1))
        ZT_LOWER_FAIL(l, "other axes than rows of a matrix, with blocks along them, are not supported");
    if (!are_bits(l, &b))
        return;
    const int64_t rows = zt_shape_count(&indices->shape), blocks = scales->shape.dim[1],
                  columns = data->shape.dim[1] * (bytes ? 8 / b.bits : 1);
    if (b.size < 1 || columns / b.size != blocks || columns % b.size) {
        ZT_LOWER_FAIL(l, "%lld columns are not %lld blocks of %lld", (long long)columns, (long long)blocks,
                      (long long)b.size);
        return;
    }
    const int ids = ZT_LOWER(l, -1, "Reshape", indices->id, zt_lower_shape(l, rows)),
              taken = ZT_LOWER(l, -1, "Gather", data->id, ids);
    const int q = ZT_LOWER(l, -1, "Reshape", bytes ? unpack(l, taken, b.bits) : taken,
                           zt_lower_shape(l, rows, blocks, b.size)),
              each = unsqueeze_last(l, ZT_LOWER(l, -1, "Gather", scales->id, ids)),
              zero = zt_lower_in(l, TABLE_ZEROS) >= 0
                         ? zeros_of(l, &b, ZT_LOWER(l, -1, "Gather", l->n->in[TABLE_ZEROS], ids), rows, blocks)
                     : bytes ? middle(l, &b)
                             : zt_graph_add_float(l->g, NULL, b.dtype, 0);
    const int w = ZT_LOWER(l, -1, "Reshape", dequantize(l, &b, q, each, zero), zt_lower_shape(l, rows, columns));
    const int shape = ZT_LOWER(l, -1, "Shape", indices->id);
    const struct zt_attr first = { .name = "axis", .type = ZT_ATTR_INT, .i = 0 };
    ZT_LOWER(l, l->n->out[0], "Reshape", w,
             ZT_LOWER_WITH(l, -1, "Concat", &first, 1, shape, zt_lower_shape(l, columns)));
}

ZT_LOWERED(matmul_bits)
ZT_LOWERED(gather_blocks)

static const struct zt_attr_spec matmul_attrs[] = { { "K", ZT_ATTR_INT, true },
                                                    { "N", ZT_ATTR_INT, true },
                                                    { "accuracy_level", ZT_ATTR_INT },
                                                    { "bits", ZT_ATTR_INT },
                                                    { "block_size", ZT_ATTR_INT, true },
                                                    { "weight_prepacked", ZT_ATTR_INT },
                                                    { 0 } };
static const struct zt_attr_spec gather_attrs[] = { { "bits", ZT_ATTR_INT },
                                                    { "block_size", ZT_ATTR_INT },
                                                    { "gather_axis", ZT_ATTR_INT },
                                                    { "quantize_axis", ZT_ATTR_INT },
                                                    { 0 } };

enum { BYTES = ZT_BIT(ZT_UINT8), TABLES = BYTES | ZT_BIT(ZT_INT4) | ZT_BIT(ZT_UINT4) };

const struct zt_op zt_op_matmul_n_bits = {
    .name = "MatMulNBits",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(3, 6),
    .in_types = { ZT_ANY_FLOAT, BYTES, ZT_ANY_FLOAT, BYTES | ZT_ANY_FLOAT, ZT_BIT(ZT_INT32), ZT_ANY_FLOAT },
    .same_type = 1 << SCALES | 1 << BIAS,
    .attrs = matmul_attrs,
    .no_grad_in = 1 << GROUPS,
    .scale_in = 1 << SCALES | 1 << ZEROS,
    .expand = matmul_bits_expand,
};
const struct zt_op zt_op_gather_block_quantized = {
    .name = "GatherBlockQuantized",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(3, 4),
    .in_types = { TABLES, ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64), ZT_ANY_FLOAT, TABLES },
    .same_type = 1 << TABLE_ZEROS,
    .attrs = gather_attrs,
    .no_grad_in = 1 << INDICES,
    .scale_in = 1 << TABLE_SCALES,
    .expand = gather_blocks_expand,
};
