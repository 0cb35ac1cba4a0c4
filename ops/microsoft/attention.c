/* Attention           q, k, v = the parts of x w + b        y = attention(q, k, v)
 * MultiHeadAttention  q, k, v = the inputs + parts of b
 *
 * as the Attention of ONNX on [batch, rows, heads * size]. A mask adds mask_filter_value to what is not kept:
 *
 *     [batch]           keys kept, from the first on        [batch, keys]    of each key, [batch, rows, keys] and row:
 *                                                                            more than 0 where it is kept
 *
 * Past keys, keys that are cached in other forms and packed tensors belong to generating text: refused. */
#include "ops/microsoft/lowering.h"

/* Numbers of inputs. */
struct layout {
    int bias, mask, added, past, last; /* past: the first input that is refused, last: the last one */
};
static const struct layout packed = { 2, 3, 5, 4, 6 };
static const struct layout separate = { 3, 4, 5, 6, 9 };

/* ---- the mask ---- */

static int constant_int32(struct zt_lowering *l, int32_t value) {
    return zt_graph_add_constant(l->g, NULL, ZT_INT32, &(struct zt_shape){ 0 }, &value);
}

/* [batch, keys] of lengths [batch]: whether the key is one of those. */
static int keys_of_lengths(struct zt_lowering *l, int lengths, int64_t keys) {
    const int64_t one = 1;
    const int numbers =
        ZT_LOWER(l, -1, "Range", constant_int32(l, 0), constant_int32(l, (int32_t)keys), constant_int32(l, 1));
    return ZT_LOWER(l, -1, "Less", numbers,
                    ZT_LOWER(l, -1, "Unsqueeze", lengths, zt_graph_add_ints(l->g, NULL, &one, 1)));
}

/* The tensor that is added to the products, [batch, 1, rows or 1, keys]; -1: none. */
static int mask_of(struct zt_lowering *l, int in, int64_t keys) {
    static const int64_t axes[] = { 1, 2 };
    const struct zt_value *mask = in < l->n->in_count ? zt_in(l->g, l->x->node, in) : NULL;
    const enum zt_dtype dtype = zt_lower_first(l)->dtype;
    if (!mask)
        return -1;
    const struct zt_shape *s = &mask->shape;
    const bool lengths = s->rank == 1 && s->dim[0] == zt_lower_first(l)->shape.dim[0];
    if (keys > INT32_MAX || (!lengths && !((s->rank == 2 || s->rank == 3) && s->dim[s->rank - 1] == keys))) {
        char text[ZT_SHAPE_TEXT];
        ZT_LOWER_FAIL(l, "a mask of shape %s is not supported", zt_shape_text(s, text));
        return -1;
    }
    const int kept =
        lengths ? keys_of_lengths(l, mask->id, keys) : ZT_LOWER(l, -1, "Greater", mask->id, constant_int32(l, 0));
    const int numbers =
        ZT_LOWER(l, -1, "Where", kept, zt_graph_add_float(l->g, NULL, dtype, 0),
                 zt_graph_add_float(l->g, NULL, dtype, (double)zt_attr_float(l->n, "mask_filter_value", -10000)));
    return ZT_LOWER(l, -1, "Unsqueeze", numbers, zt_graph_add_ints(l->g, NULL, axes, s->rank == 3 ? 1 : 2));
}

/* ---- both ---- */

static void attend(struct zt_lowering *l, const struct layout *in, const int qkv[3], int64_t keys) {
    const int64_t heads = zt_attr_int(l->n, "num_heads", 0);
    const int mask = mask_of(l, in->mask, keys), added = zt_lower_in(l, in->added);
    const int sum = mask < 0 ? added : zt_lower_add(l, -1, mask, added);
    struct zt_attr attrs[4] = {
        { .name = "q_num_heads", .type = ZT_ATTR_INT, .i = heads },
        { .name = "kv_num_heads", .type = ZT_ATTR_INT, .i = heads },
        { .name = "is_causal", .type = ZT_ATTR_INT, .i = zt_attr_int(l->n, "unidirectional", 0) },
        { .name = "scale", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(l->n, "scale", 0) },
    };
    zt_lower_refuse_in(l, in->past, in->past, "of past keys");
    zt_lower_refuse_in(l, in->added + 1, in->last, "of past keys");
    zt_lower_refuse_out(l, 1, 3, "keys and values to keep");
    if (zt_attr_int(l->n, "do_rotary", 0))
        ZT_LOWER_FAIL(l, "do_rotary is not supported");
    zt_lower(l, l->n->out[0],
             &(struct zt_expand_node){ "Attention", (const int[]){ qkv[0], qkv[1], qkv[2], sum }, sum < 0 ? 3 : 4,
                                       attrs, attrs[3].f != 0 ? 4 : 3 });
}

/* Parts of a tensor along its last axis. */
static void split(struct zt_lowering *l, int value, const int64_t size[3], int part[3]) {
    const struct zt_attr last = { .name = "axis", .type = ZT_ATTR_INT, .i = -1 };
    part[0] = part[1] = part[2] = -1;
    zt_lower_all(
        l, &(struct zt_expand_node){ "Split", ZT_LOWER_IN(value, zt_graph_add_ints(l->g, NULL, size, 3)), &last, 1 },
        part, 3);
}

static void attention(struct zt_lowering *l) {
    const struct zt_shape *x = &zt_lower_first(l)->shape, *w = &zt_in(l->g, l->x->node, 1)->shape;
    const struct zt_attr *sizes = zt_node_attr(l->n, "qkv_hidden_sizes");
    int part[3];
    if (x->rank != 3 || w->rank != 2 || (sizes && sizes->count != 3)) {
        ZT_LOWER_FAIL(l, "wants an input of 3 axes, weights of 2 and sizes of 3 parts");
        return;
    }
    const int64_t each = w->dim[1] / 3;
    const int product = ZT_LOWER(l, -1, "MatMul", l->n->in[0], l->n->in[1]);
    split(l, zt_lower_add(l, -1, product, zt_lower_in(l, packed.bias)),
          sizes ? sizes->ints : (const int64_t[3]){ each, each, each }, part);
    attend(l, &packed, part, x->dim[1]);
}

static void multi_head(struct zt_lowering *l) {
    int64_t size[3];
    int part[3], bias[3];
    for (int i = 0; i < 3; i++) {
        const struct zt_value *v = i < l->n->in_count ? zt_in(l->g, l->x->node, i) : NULL;
        if (!v || v->shape.rank != 3) {
            ZT_LOWER_FAIL(l, "input %d must have 3 axes: packed queries, keys and values are not supported", i);
            return;
        }
        part[i] = v->id;
        size[i] = v->shape.dim[2];
    }
    if (zt_lower_in(l, separate.bias) >= 0) {
        split(l, zt_lower_in(l, separate.bias), size, bias);
        for (int i = 0; i < 3; i++)
            part[i] = ZT_LOWER(l, -1, "Add", part[i], bias[i]);
    }
    attend(l, &separate, part, zt_in(l->g, l->x->node, 1)->shape.dim[1]);
}

ZT_LOWERED(attention)
ZT_LOWERED(multi_head)

/* ---- rows ---- */

static const struct zt_attr_spec packed_attrs[] = { { "do_rotary", ZT_ATTR_INT },
                                                    { "mask_filter_value", ZT_ATTR_FLOAT },
                                                    { "num_heads", ZT_ATTR_INT, true },
                                                    { "past_present_share_buffer", ZT_ATTR_INT },
                                                    { "qkv_hidden_sizes", ZT_ATTR_INTS },
                                                    { "rotary_embedding_dim", ZT_ATTR_INT },
                                                    { "scale", ZT_ATTR_FLOAT },
                                                    { "unidirectional", ZT_ATTR_INT },
                                                    { 0 } };
static const struct zt_attr_spec separate_attrs[] = { { "mask_filter_value", ZT_ATTR_FLOAT },
                                                      { "num_heads", ZT_ATTR_INT, true },
                                                      { "scale", ZT_ATTR_FLOAT },
                                                      { "unidirectional", ZT_ATTR_INT },
                                                      { 0 } };

#define MASK ZT_BIT(ZT_INT32)

const struct zt_op zt_op_microsoft_attention = {
    .name = "Attention",
    .domain = "com.microsoft",
    .since = 1,
    .min_in = 2,
    .max_in = 7,
    .min_out = 1,
    .max_out = 2,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, MASK, ZT_ANY_FLOAT, ZT_ANY_FLOAT, MASK },
    .same_type = 1 << 1 | 1 << 2 | 1 << 5,
    .attrs = packed_attrs,
    .no_grad_in = 1 << 3 | 1 << 6,
    .expand = attention_expand,
};
const struct zt_op zt_op_multi_head_attention = {
    .name = "MultiHeadAttention",
    .domain = "com.microsoft",
    .since = 1,
    .min_in = 1,
    .max_in = 10,
    .min_out = 1,
    .max_out = 4,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, MASK, ZT_ANY_FLOAT, ZT_ANY_TYPE },
    .same_type = 0x2e,
    .attrs = separate_attrs,
    .no_grad_in = 1 << 4,
    .expand = multi_head_expand,
};
