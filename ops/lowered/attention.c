/* Attention           q, k, v = the parts of x w + b        y = attention(q, k, v)
 * QAttention          the same of integers x and w with scales and zero points
 * MultiHeadAttention  q, k, v = the inputs + parts of b
 *
 * as the Attention of ONNX on [batch, rows, heads * size]. MultiHeadAttention also takes
 *
 *     q  [batch, rows, heads, 3, size]: keys and values beside the queries       k  [batch, rows, heads, 2, size]:
 * values k and v  [batch, heads, rows, size]                                           beside the keys
 *
 * Past keys and values come before these, whose bias they do not get; the present ones are both. Attention has a tensor
 * with the two in front of each other. A mask adds mask_filter_value to what is not kept:
 *
 *     [batch]            keys kept, from the first on       [batch, keys]    of each key, [batch, rows, keys] and row:
 *     [2 batch]          ends, then starts of these                          more than 0 where it is kept
 *     [3 batch + 2]      keys kept, then offsets of the sequences among all rows, which say nothing more
 *
 * MultiHeadAttention's past_sequence_length says how many rows of the past keys count: the new ones follow these, and
 * the present keys are as many as the past ones. Buffers of which the rows of beams are chosen (cache_indirection), and
 * those of Attention, belong to generating text: refused. */
#include "ops/lowered/heads.h"
#include "ops/lowered/quantized.h"

#include <math.h>

/* Numbers of inputs; NONE: the operator has no such input. */
enum { NONE = 99 };
struct layout {
    int bias, mask, added, past, refused, last; /* refused: the first input that is, last: the last one */
};
static const struct layout packed = { 2, 3, 5, 4, 6, 6 };
static const struct layout quantized = { 2, 5, NONE, 8, NONE, NONE };
static const struct layout separate = { 3, 4, 5, 6, 9, 9 };
enum { PAST_LENGTH = 8 }; /* of MultiHeadAttention */

/* Queries, keys and values of [batch, rows, heads * size]; past keys and values, -1: none. */
struct operands {
    int part[3], past[2];
    int64_t rows, new_rows; /* of queries and keys */
    int64_t keys;           /* with the past ones */
    int seen;               /* which keys each query sees, of a buffer; -1: is_causal says it */
    enum zt_dtype dtype;
};

/* ---- the mask ---- */

/* [batch, keys] of a vector of the ends of the keys that are kept, and of what follows these. */
static int keys_within(struct zt_lowering *l, const struct zt_value *mask, int64_t batch, int64_t keys) {
    const int64_t count = mask->shape.dim[0];
    const int ends = count == batch
                         ? mask->id
                         : ZT_LOWER(l, -1, "Slice", mask->id, zt_lower_shape(l, 0), zt_lower_shape(l, batch)),
              within = zt_lower_first_keys(l, ends, keys);
    if (count != 2 * batch)
        return within;
    const int starts = ZT_LOWER(l, -1, "Slice", mask->id, zt_lower_shape(l, batch), zt_lower_shape(l, count));
    return ZT_LOWER(l, -1, "And", within, ZT_LOWER(l, -1, "Not", zt_lower_first_keys(l, starts, keys)));
}

/* The tensor that is added to the products, [batch, 1, rows or 1, keys]; -1: none. */
static int mask_of(struct zt_lowering *l, int in, int64_t keys, enum zt_dtype dtype) {
    static const int64_t axes[] = { 1, 2 };
    const struct zt_value *mask = in < l->n->in_count ? zt_in(l->g, l->x->node, in) : NULL;
    if (!mask)
        return -1;
    const struct zt_shape *s = &mask->shape;
    const int64_t batch = zt_lower_first(l)->shape.dim[0];
    const int64_t count = s->rank == 1 ? s->dim[0] : 0;
    const bool ends = count == batch || count == 2 * batch || count == 3 * batch + 2;
    if (!ends && !((s->rank == 2 || s->rank == 3) && s->dim[s->rank - 1] == keys)) {
        char text[ZT_SHAPE_TEXT];
        ZT_LOWER_FAIL(l, "a mask of shape %s is not supported", zt_shape_text(s, text));
        return -1;
    }
    const int kept =
        s->rank == 1 ? keys_within(l, mask, batch, keys) : ZT_LOWER(l, -1, "Greater", mask->id, zt_lower_int32(l, 0));
    const int numbers =
        ZT_LOWER(l, -1, "Where", kept, zt_graph_add_float(l->g, NULL, dtype, 0),
                 zt_graph_add_float(l->g, NULL, dtype, (double)zt_attr_float(l->n, "mask_filter_value", -10000)));
    return ZT_LOWER(l, -1, "Unsqueeze", numbers, zt_graph_add_ints(l->g, NULL, axes, s->rank == 3 ? 1 : 2));
}

/* ---- both ---- */

static void attend(struct zt_lowering *l, const struct layout *in, const struct operands *o) {
    const int64_t heads = zt_attr_int(l->n, "num_heads", 0);
    const int mask = mask_of(l, in->mask, o->keys, o->dtype), added = zt_lower_in(l, in->added);
    const int seen = o->seen < 0 ? -1
                                 : ZT_LOWER(l, -1, "Where", o->seen, zt_graph_add_float(l->g, NULL, o->dtype, 0),
                                            zt_graph_add_float(l->g, NULL, o->dtype, -(double)INFINITY));
    const int given = mask < 0 ? added : zt_lower_add(l, -1, mask, added);
    const int sum = given < 0 ? seen : zt_lower_add(l, -1, given, seen);
    struct zt_attr attrs[4] = {
        { .name = "q_num_heads", .type = ZT_ATTR_INT, .i = heads },
        { .name = "kv_num_heads", .type = ZT_ATTR_INT, .i = heads },
        { .name = "is_causal", .type = ZT_ATTR_INT, .i = zt_attr_int(l->n, "unidirectional", 0) && o->seen < 0 },
        { .name = "scale", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(l->n, "scale", 0) },
    };
    zt_lower_refuse_in(l, in->refused, in->last, "of buffers of past keys for beams");
    if (zt_attr_int(l->n, "do_rotary", 0))
        ZT_LOWER_FAIL(l, "do_rotary is not supported");
    if (attrs[2].i && o->rows != o->new_rows)
        ZT_LOWER_FAIL(l, "one direction with %lld keys of %lld queries is not supported", (long long)o->new_rows,
                      (long long)o->rows);
    const int values[] = { o->part[0], o->part[1], o->part[2], sum, o->past[0], o->past[1] };
    zt_lower(l, l->n->out[0],
             &(struct zt_expand_node){ "Attention", values,
                                       o->past[0] >= 0 ? 6
                                       : sum >= 0      ? 4
                                                       : 3,
                                       attrs, attrs[3].f != 0 ? 4 : 3 });
}

/* ---- Attention ---- */

/* Past keys and values, which are one tensor. */
static void read_past(struct zt_lowering *l, int in, struct operands *o) {
    const struct zt_attr halves[] = { { .name = "axis", .type = ZT_ATTR_INT, .i = 0 },
                                      { .name = "num_outputs", .type = ZT_ATTR_INT, .i = 2 } };
    const struct zt_value *past = in < l->n->in_count ? zt_in(l->g, l->x->node, in) : NULL;
    int half[2] = { -1, -1 };
    if (!past || (past->shape.rank == 5 && past->shape.dim[3] == 0))
        return;
    if (past->shape.rank != 5 || past->shape.dim[0] != 2 || zt_attr_int(l->n, "past_present_share_buffer", 0)) {
        ZT_LOWER_FAIL(l, "past keys in another form than [2, batch, heads, rows, size] are not supported");
        return;
    }
    zt_lower_all(l, &(struct zt_expand_node){ "Split", &past->id, 1, halves, 2 }, half, 2);
    for (int i = 0; i < 2; i++)
        o->past[i] = ZT_LOWER(l, -1, "Squeeze", half[i], zt_lower_shape(l, 0));
    o->keys += past->shape.dim[3];
}

static void write_present(struct zt_lowering *l, const struct operands *o) {
    const struct zt_attr first = { .name = "axis", .type = ZT_ATTR_INT, .i = 0 };
    int both[2];
    if (zt_lower_out(l, 1) < 0)
        return;
    for (int i = 0; i < 2; i++) {
        const int present = zt_lower_present(l, -1, o->past[i], o->part[1 + i], zt_attr_int(l->n, "num_heads", 0));
        both[i] = ZT_LOWER(l, -1, "Unsqueeze", present, zt_lower_shape(l, 0));
    }
    ZT_LOWER_WITH(l, l->n->out[1], "Concat", &first, 1, both[0], both[1]);
}

/* Of floats x and w of type `dtype`, which have the shapes of inputs 0 and 1. */
static void attend_packed(struct zt_lowering *l, const struct layout *in, const int x_w[2], enum zt_dtype dtype) {
    const struct zt_shape *x = &zt_lower_first(l)->shape, *w = &zt_in(l->g, l->x->node, 1)->shape;
    const struct zt_attr *sizes = zt_node_attr(l->n, "qkv_hidden_sizes");
    if (x->rank != 3 || w->rank != 2 || (sizes && sizes->count != 3)) {
        ZT_LOWER_FAIL(l, "wants an input of 3 axes, weights of 2 and sizes of 3 parts");
        return;
    }
    struct operands o = {
        .past = { -1, -1 }, .rows = x->dim[1], .new_rows = x->dim[1], .keys = x->dim[1], .seen = -1, .dtype = dtype
    };
    const int64_t each = w->dim[1] / 3;
    const int product = ZT_LOWER(l, -1, "MatMul", x_w[0], x_w[1]);
    zt_lower_split(l, zt_lower_add(l, -1, product, zt_lower_in(l, in->bias)),
                   sizes ? sizes->ints : (const int64_t[3]){ each, each, each }, o.part);
    read_past(l, in->past, &o);
    attend(l, in, &o);
    write_present(l, &o);
}

static void attention(struct zt_lowering *l) {
    attend_packed(l, &packed, l->n->in, zt_lower_first(l)->dtype);
}

static void quantized_attention(struct zt_lowering *l) {
    const int x = zt_lower_dequantize(l, (const int[]){ l->n->in[0], l->n->in[3], zt_lower_in(l, 6) }, 1);
    const int w = zt_lower_dequantize(l, (const int[]){ l->n->in[1], l->n->in[4], zt_lower_in(l, 7) }, -1);
    attend_packed(l, &quantized, (const int[]){ x, w }, zt_in(l->g, l->x->node, quantized.bias)->dtype);
}

/* ---- MultiHeadAttention ---- */

/* The tensors that are beside each other along axis 3 of [batch, rows, heads, count, size]. */
static void unpack(struct zt_lowering *l, const struct zt_value *x, int count, int part[3]) {
    const struct zt_attr attrs[] = { { .name = "axis", .type = ZT_ATTR_INT, .i = 3 },
                                     { .name = "num_outputs", .type = ZT_ATTR_INT, .i = count } };
    int apart[3] = { -1, -1, -1 };
    zt_lower_all(l, &(struct zt_expand_node){ "Split", &x->id, 1, attrs, 2 }, apart, count);
    for (int i = 0; i < count; i++)
        part[i] = ZT_LOWER(l, -1, "Reshape", apart[i], zt_lower_shape(l, 0, 0, x->shape.dim[2] * x->shape.dim[4]));
}

/* [batch, heads, rows, size] as [batch, rows, heads * size]. */
static int by_row(struct zt_lowering *l, const struct zt_value *x) {
    static const int64_t order[] = { 0, 2, 1, 3 };
    const struct zt_attr perm = { .name = "perm", .type = ZT_ATTR_INTS, .count = 4, .ints = order };
    return ZT_LOWER(l, -1, "Reshape", ZT_LOWER_WITH(l, -1, "Transpose", &perm, 1, x->id),
                    zt_lower_shape(l, 0, 0, x->shape.dim[1] * x->shape.dim[3]));
}

/* How the operands are given: the ranks of the inputs, 0: omitted. `count` of them are in the last one. */
static const struct form {
    int rank[3], count;
} forms[] = { { { 3, 3, 3 }, 1 }, { { 3, 4, 4 }, 1 }, { { 3, 5, 0 }, 2 }, { { 5, 0, 0 }, 3 } };

static const struct form *find_form(struct zt_lowering *l) {
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        bool fits = true;
        for (int i = 0; i < 3; i++) {
            const struct zt_value *v = i < l->n->in_count ? zt_in(l->g, l->x->node, i) : NULL;
            fits &= (v ? v->shape.rank : 0) == forms[f].rank[i];
            fits &= !v || v->shape.rank != 5 || v->shape.dim[3] == forms[f].count;
        }
        if (fits)
            return &forms[f];
    }
    ZT_LOWER_FAIL(l, "queries, keys and values of these shapes are not supported");
    return NULL;
}

/* Adds the parts of the bias; keys and values that are given by head have none. */
static void add_bias(struct zt_lowering *l, const struct form *f, const int64_t size[3], struct operands *o) {
    int bias[3];
    if (zt_lower_in(l, separate.bias) < 0)
        return;
    zt_lower_split(l, zt_lower_in(l, separate.bias), size, bias);
    for (int i = 0; i < (f->rank[1] == 4 ? 1 : 3); i++)
        o->part[i] = ZT_LOWER(l, -1, "Add", o->part[i], bias[i]);
}

/* Keys and values of a buffer of past ones. `heads` of each. */
static void fill(struct zt_lowering *l, struct operands *o, int64_t heads) {
    const struct zt_attr to = { .name = "to", .type = ZT_ATTR_INT, .i = ZT_INT64 };
    const int64_t past = o->keys - o->new_rows;
    const int length = ZT_LOWER(l, -1, "Reshape", l->n->in[PAST_LENGTH], zt_lower_shape(l, -1));
    const int wide = ZT_LOWER_WITH(l, -1, "Cast", &to, 1, length);
    struct zt_lower_buffer b = {
        .lengths = ZT_LOWER(l, -1, "Expand", wide, zt_lower_shape(l, zt_lower_first(l)->shape.dim[0])),
        .past = past,
        .added = o->new_rows,
        .present = past,
        .heads = heads,
    };
    zt_lower_index(l, &b);
    for (int i = 0; i < 2; i++) {
        o->part[1 + i] = zt_lower_fill(l, &b, o->past[i], o->part[1 + i], zt_lower_out(l, 1 + i));
        o->past[i] = -1;
    }
    o->keys = past;
    const int key = ZT_LOWER(l, -1, "Range", zt_lower_int64(l, 0), zt_lower_int64(l, past), zt_lower_int64(l, 1));
    const int row =
        ZT_LOWER(l, -1, "Range", zt_lower_int64(l, 1), zt_lower_int64(l, o->rows + 1), zt_lower_int64(l, 1));
    const int end = zt_attr_int(l->n, "unidirectional", 0) ? row : zt_lower_int64(l, o->new_rows);
    const int ends = ZT_LOWER(l, -1, "Reshape", ZT_LOWER(l, -1, "Add", wide, end), zt_lower_shape(l, -1, 1));
    o->seen = ZT_LOWER(l, -1, "Less", key, ends);
}

static void multi_head(struct zt_lowering *l) {
    const struct form *f = find_form(l);
    struct operands o = { .past = { -1, -1 }, .seen = -1, .dtype = zt_lower_first(l)->dtype };
    int64_t size[3];
    if (!f)
        return;
    for (int i = 0; i < 3; i++) {
        const int from = f->rank[i] ? i : 3 - f->count;
        const struct zt_value *v = zt_in(l->g, l->x->node, from);
        const struct zt_shape *s = &v->shape;
        if (s->rank == 3)
            o.part[i] = v->id;
        else if (s->rank == 4)
            o.part[i] = by_row(l, v);
        else if (i == from)
            unpack(l, v, f->count, &o.part[i]);
        size[i] = s->rank == 3 ? s->dim[2] : s->rank == 4 ? s->dim[1] * s->dim[3] : s->dim[2] * s->dim[4];
        o.keys = s->dim[s->rank == 4 ? 2 : 1];
        o.rows = i == 0 ? o.keys : o.rows;
    }
    o.new_rows = o.keys;
    add_bias(l, f, size, &o);
    int64_t values = o.keys;
    o.past[0] = zt_lower_past(l, separate.past, &o.keys);
    o.past[1] = zt_lower_past(l, separate.past + 1, &values);
    zt_lower_refuse_out(l, 3, 3, "products of queries and keys");
    const bool buffer = zt_lower_in(l, PAST_LENGTH) >= 0 && o.past[0] >= 0 && o.past[1] >= 0;
    if (buffer)
        fill(l, &o, zt_attr_int(l->n, "num_heads", 0));
    attend(l, &separate, &o);
    for (int i = 0; i < 2; i++)
        if (zt_lower_out(l, 1 + i) >= 0 && !buffer)
            zt_lower_present(l, l->n->out[1 + i], o.past[i], o.part[1 + i], zt_attr_int(l->n, "num_heads", 0));
}

ZT_LOWERED(attention)
ZT_LOWERED(quantized_attention)
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
static const struct zt_attr_spec quantized_attrs[] = { { "do_rotary", ZT_ATTR_INT },
                                                       { "mask_filter_value", ZT_ATTR_FLOAT },
                                                       { "num_heads", ZT_ATTR_INT, true },
                                                       { "past_present_share_buffer", ZT_ATTR_INT },
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
    .same_type = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5,
    .attrs = packed_attrs,
    .no_grad_in = 1 << 3 | 1 << 6,
    .expand = attention_expand,
};
const struct zt_op zt_op_quantized_attention = {
    .name = "QAttention",
    .domain = "com.microsoft",
    .since = 1,
    .min_in = 5,
    .max_in = 9,
    .min_out = 1,
    .max_out = 2,
    .in_types = { ZT_MICROSOFT_BYTES, ZT_MICROSOFT_BYTES, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, MASK,
                  ZT_MICROSOFT_BYTES, ZT_MICROSOFT_BYTES | ZT_ANY_FLOAT },
    .attrs = quantized_attrs,
    .no_grad_in = 1 << 5,
    .scale_in = 1 << 3 | 1 << 4,
    .expand = quantized_attention_expand,
};
const struct zt_op zt_op_multi_head_attention = {
    .name = "MultiHeadAttention",
    .domain = "com.microsoft",
    .since = 1,
    .min_in = 1,
    .max_in = 10,
    .min_out = 1,
    .max_out = 4,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, MASK, ZT_ANY_FLOAT, ZT_ANY_FLOAT,
                  ZT_ANY_TYPE },
    .same_type = 0x6e,
    .attrs = separate_attrs,
    .no_grad_in = 1 << 4 | 1 << PAST_LENGTH,
    .expand = multi_head_expand,
};
