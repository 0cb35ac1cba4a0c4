/* RotaryEmbedding: that of ONNX with its inputs in another order, and with positions that go on from a single one. */
#include "ops/lowered/heads.h"

enum { X, POSITIONS, COS, SIN };

static void rotary(struct zt_lowering *l) {
    const struct zt_shape *x = &zt_lower_first(l)->shape, *at = &zt_in(l->g, l->x->node, POSITIONS)->shape,
                          *cos = &zt_in(l->g, l->x->node, COS)->shape;
    const int64_t rotated = zt_attr_int(l->n, "rotary_embedding_dim", 0), given = zt_attr_int(l->n, "num_heads", 0);
    if ((x->rank != 3 && x->rank != 4) || cos->rank != 2 || cos->dim[1] < 1 || (x->rank == 3 && rotated && given < 1)) {
        ZT_LOWER_FAIL(l,
                      "wants an input of 3 axes (with num_heads where rotary_embedding_dim is given) or 4, and "
                      "caches of 2");
        return;
    }
    if (zt_attr_float(l->n, "scale", 1) != 1)
        ZT_LOWER_FAIL(l, "a scale is not supported");
    const int64_t rows = x->dim[x->rank - 2];
    const bool first = at->rank == 1 && at->dim[0] == 1;
    const struct zt_lower_rotary r = {
        .x = l->n->in[X],
        .cos = l->n->in[COS],
        .sin = l->n->in[SIN],
        .positions = first ? zt_lower_positions(l, l->n->in[POSITIONS], x->dim[0], rows) : l->n->in[POSITIONS],
        .heads = rotated ? given : x->dim[x->rank - 1] / (2 * cos->dim[1]),
        .rotated = rotated,
        .interleaved = zt_attr_int(l->n, "interleaved", 0) != 0,
    };
    zt_lower_rotate(l, l->n->out[0], &r);
}

ZT_LOWERED(rotary)

static const struct zt_attr_spec rotary_attrs[] = {
    { "interleaved", ZT_ATTR_INT }, { "is_packed_batching", ZT_ATTR_INT },
    { "num_heads", ZT_ATTR_INT },   { "rotary_embedding_dim", ZT_ATTR_INT },
    { "scale", ZT_ATTR_FLOAT },     { 0 }
};

const struct zt_op zt_op_microsoft_rotary_embedding = {
    .name = "RotaryEmbedding",
    .domain = "com.microsoft",
    .since = 1,
    ZT_ONE_OUT(4, 4),
    .in_types = { ZT_ANY_FLOAT, ZT_BIT(ZT_INT64), ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << COS | 1 << SIN,
    .attrs = rotary_attrs,
    .no_grad_in = 1 << POSITIONS,
    .expand = rotary_expand,
};
