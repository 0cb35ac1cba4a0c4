/* GroupQueryAttention: attention of query heads that share key heads in groups, on [batch, rows, heads * size].
 *
 *     q, k         rotated by RotaryEmbedding if do_rotary, at positions past, past + 1, ..
 *     keys, values past ones, then the given ones: the present ones
 *     y            Attention(q, keys, values) of ONNX with softcap, causal, and with a window of the last
 *                  local_window_size keys
 *
 * Queries, keys and values may be one tensor, beside each other. Keys from seqlens_k + 1 on are padding, which no query
 * sees. A sink (0 with smooth_softmax) is a number for each head that counts as another score in the softmax, without a
 * value: a first key and value of zeros, with the sink as its bias.
 *
 * Where the past keys are a buffer of which the first rows count, seqlens_k + 1 - rows of each sample, the new ones
 * follow these. Present keys are then the first max(past, total_sequence_length) rows, with zeros from seqlens_k + 1
 * on. As many rows as total_sequence_length are a prompt: nothing of the buffer counts.
 *
 * Quantized caches hold int8 with one scale, or one for each head and column: keys and values are rounded to them
 * before any query reads them.
 *
 * Refused: caches of 4 bits, norms of queries and keys, products as an output.
 */
#include "ops/lowered/heads.h"

#include <math.h>
#include <string.h>

enum { Q, K, V, PAST_K, PAST_V, LENGTHS, TOTAL, COS, SIN, POSITIONS, BIAS, SINK, K_SCALE, INS = K_SCALE + 4 };

struct group_query {
    int part[3];                       /* queries, keys, values */
    int past[2];                       /* -1: none */
    int64_t batch, rows, before, keys; /* before: past keys, which `keys` includes */
    int lengths;                       /* past keys of each sample that count, [batch], int64; -1: all */
    bool prompt;                       /* none counts */
    int64_t heads, kv_heads, size;
    int64_t window; /* 0: none */
    bool causal;
};

static const struct zt_value *input(const struct zt_lowering *l, int in) {
    return in < l->n->in_count ? zt_in(l->g, l->x->node, in) : NULL;
}

/* ---- what is refused ---- */

/* Whether the keys (0) or values (1) are kept as integers. */
static bool quantized(const struct zt_lowering *l, int i) {
    static const char *const types[] = { "k_quant_type", "v_quant_type" };
    return strcmp(zt_attr_text(l->n, types[i], "NONE"), "NONE") != 0;
}

static void refuse(struct zt_lowering *l) {
    static const char *const refused[] = { "qk_output", "sliding_window_cache" };
    for (int i = 0; i < 2; i++) {
        if (zt_attr_int(l->n, refused[i], 0))
            ZT_LOWER_FAIL(l, "%s is not supported", refused[i]);
        if (quantized(l, i) && zt_attr_int(l->n, "kv_cache_bit_width", 8) != 8)
            ZT_LOWER_FAIL(l, "kv_cache_bit_width is %lld, only 8 is supported",
                          (long long)zt_attr_int(l->n, "kv_cache_bit_width", 8));
        if (quantized(l, i) != (zt_lower_in(l, K_SCALE + i) >= 0))
            ZT_LOWER_FAIL(l, "a quantized cache, and nothing else, wants a scale");
    }
    zt_lower_refuse_in(l, K_SCALE + 2, INS - 1, "a norm of queries or keys");
    zt_lower_refuse_out(l, 3, 3, "products of queries and keys");
}

/* Whether all of an input's integers are known to be `value`. */
static bool is_all(const struct zt_value *v, int64_t value) {
    bool all = v && zt_value_is_constant(v);
    for (int64_t i = 0; all && i < zt_shape_count(&v->shape); i++)
        all = zt_load_int(v->dtype, v->data, i) == value;
    return all;
}

/* ---- the operands ---- */

static bool read_operands(struct zt_lowering *l, struct group_query *a) {
    const struct zt_shape *q = &zt_lower_first(l)->shape;
    const int64_t heads = zt_attr_int(l->n, "num_heads", 0), kv_heads = zt_attr_int(l->n, "kv_num_heads", 0);
    const bool packed = !input(l, K) && !input(l, V),
               sizes = heads > 0 && heads <= INT32_MAX && kv_heads > 0 && kv_heads <= INT32_MAX;
    const int64_t all = !sizes ? 1 : packed ? heads + 2 * kv_heads : heads;
    if (q->rank != 3 || !sizes || q->dim[2] % all || !input(l, K) != !input(l, V)) {
        ZT_LOWER_FAIL(l, "wants queries of [batch, rows, heads * size], with keys and values beside them or as inputs");
        return false;
    }
    *a = (struct group_query){ .part = { l->n->in[Q], zt_lower_in(l, K), zt_lower_in(l, V) },
                               .batch = q->dim[0],
                               .rows = q->dim[1],
                               .heads = heads,
                               .kv_heads = kv_heads,
                               .size = q->dim[2] / all,
                               .causal = zt_attr_int(l->n, "causal", 1) != 0 };
    if (packed)
        zt_lower_split(l, l->n->in[Q], (const int64_t[]){ heads * a->size, kv_heads * a->size, kv_heads * a->size },
                       a->part);
    else if (input(l, K)->shape.rank != 3 || input(l, K)->shape.dim[1] != a->rows)
        ZT_LOWER_FAIL(l, "wants as many rows of keys as of queries");
    const int64_t window = zt_attr_int(l->n, "local_window_size", -1);
    int64_t values = 0;
    a->window = window > 0 ? window : 0;
    a->past[0] = zt_lower_past(l, PAST_K, &a->before);
    a->past[1] = zt_lower_past(l, PAST_V, &values);
    a->keys = a->before + a->rows;
    a->lengths = -1;
    a->prompt = !a->before;
    if (values != a->before || (a->window && !a->causal))
        ZT_LOWER_FAIL(l, "wants as many past keys as values, and causal attention where there is a window");
    return !l->failed;
}

/* ---- past keys that count ---- */

static void find_lengths(struct zt_lowering *l, struct group_query *a, int64_t total) {
    if (total < a->rows || total > a->keys || (zt_lower_in(l, BIAS) >= 0 && total < a->before)) {
        ZT_LOWER_FAIL(l, "total_sequence_length is %lld, of %lld past and %lld new rows", (long long)total,
                      (long long)a->before, (long long)a->rows);
        return;
    }
    const struct zt_attr to = { .name = "to", .type = ZT_ATTR_INT, .i = ZT_INT64 };
    const int last =
        ZT_LOWER_WITH(l, -1, "Cast", &to, 1, ZT_LOWER(l, -1, "Reshape", l->n->in[LENGTHS], zt_lower_shape(l, -1)));
    a->prompt = total == a->rows;
    a->keys = total > a->before ? total : a->before;
    a->lengths = a->prompt ? ZT_LOWER(l, -1, "Expand", zt_lower_int64(l, 0), zt_lower_shape(l, a->batch))
                           : ZT_LOWER(l, -1, "Sub", last, zt_lower_int64(l, a->rows - 1));
}

/* How many keys there are comes from constants and shapes. */
static void check_filled(struct zt_lowering *l, struct group_query *a) {
    const struct zt_value *total = input(l, TOTAL);
    const bool known = zt_value_is_constant(total) && zt_shape_count(&total->shape) == 1;
    if (!a->before && (!known || is_all(total, a->rows)))
        return;
    if (!a->before || !known)
        ZT_LOWER_FAIL(l, "total_sequence_length must be a constant, of %lld past and %lld new rows",
                      (long long)a->before, (long long)a->rows);
    else if (!is_all(total, a->keys) || !is_all(input(l, LENGTHS), a->keys - 1))
        find_lengths(l, a, zt_load_int(total->dtype, total->data, 0));
}

/* Keys and values with the past ones that count. */
static void fill(struct zt_lowering *l, struct group_query *a) {
    struct zt_lower_buffer b = {
        .lengths = a->lengths, .past = a->before, .added = a->rows, .present = a->keys, .heads = a->kv_heads
    };
    if (a->lengths < 0 || l->failed)
        return;
    zt_lower_index(l, &b);
    for (int i = 0; i < 2; i++) {
        a->part[K + i] =
            zt_lower_fill(l, &b, a->past[i], a->part[K + i], quantized(l, i) ? -1 : zt_lower_out(l, 1 + i));
        a->past[i] = -1;
    }
}

/* The place of each query among the keys, [batch, rows] from lengths. */
static int places(struct zt_lowering *l, const struct group_query *a) {
    const int row = ZT_LOWER(l, -1, "Range", zt_lower_int64(l, 0), zt_lower_int64(l, a->rows), zt_lower_int64(l, 1));
    return ZT_LOWER(l, -1, "Add", ZT_LOWER(l, -1, "Unsqueeze", a->lengths, zt_lower_shape(l, 1)), row);
}

/* Prompts use the first position alone, and the rows after it. */
static int positions(struct zt_lowering *l, const struct group_query *a) {
    const int given = zt_lower_in(l, POSITIONS);
    if (given >= 0 && !a->prompt)
        return given;
    if (given < 0 && a->lengths >= 0)
        return places(l, a);
    if (given < 0)
        return zt_lower_positions(l, a->before ? zt_lower_int64(l, a->before) : -1, a->batch, a->rows);
    const int all = ZT_LOWER(l, -1, "Reshape", given, zt_lower_shape(l, -1));
    return zt_lower_positions(l, ZT_LOWER(l, -1, "Slice", all, zt_lower_shape(l, 0), zt_lower_shape(l, 1)), a->batch,
                              a->rows);
}

static void rotate(struct zt_lowering *l, struct group_query *a) {
    if (!zt_attr_int(l->n, "do_rotary", 0))
        return;
    if (!input(l, COS) || !input(l, SIN) || input(l, COS)->shape.rank != 2) {
        ZT_LOWER_FAIL(l, "do_rotary wants caches of cosines and sines");
        return;
    }
    struct zt_lower_rotary r = { .cos = l->n->in[COS],
                                 .sin = l->n->in[SIN],
                                 .positions = positions(l, a),
                                 .rotated = 2 * input(l, COS)->shape.dim[1],
                                 .interleaved = zt_attr_int(l->n, "rotary_interleaved", 0) != 0 };
    for (int i = Q; i <= K; i++) {
        r.x = a->part[i];
        r.heads = i == Q ? a->heads : a->kv_heads;
        a->part[i] = zt_lower_rotate(l, -1, &r);
    }
}

/* ---- the mask ---- */

static int both(struct zt_lowering *l, int a, int b) {
    return a < 0 ? b : b < 0 ? a : ZT_LOWER(l, -1, "And", a, b);
}

/* [batch, 1, 1, keys]: whether the key is no padding; -1: all are none. */
static int unpadded(struct zt_lowering *l, const struct group_query *a) {
    if (is_all(input(l, LENGTHS), a->keys - 1))
        return -1;
    const int counts = ZT_LOWER(l, -1, "Reshape", l->n->in[LENGTHS], zt_lower_shape(l, -1));
    const int kept = zt_lower_first_keys(l, ZT_LOWER(l, -1, "Add", counts, zt_lower_int32(l, 1)), a->keys);
    return ZT_LOWER(l, -1, "Unsqueeze", kept, zt_lower_shape(l, 1, 2));
}

/* [rows, keys], of lengths [batch, 1, rows, keys]: whether the query sees the key; -1: all see all. */
static int seen(struct zt_lowering *l, const struct group_query *a) {
    if (!a->causal)
        return -1;
    const int key = ZT_LOWER(l, -1, "Range", zt_lower_int64(l, 0), zt_lower_int64(l, a->keys), zt_lower_int64(l, 1));
    const int query = a->lengths >= 0 ? ZT_LOWER(l, -1, "Unsqueeze", places(l, a), zt_lower_shape(l, 1, 3))
                                      : ZT_LOWER(l, -1, "Unsqueeze",
                                                 ZT_LOWER(l, -1, "Range", zt_lower_int64(l, a->before),
                                                          zt_lower_int64(l, a->keys), zt_lower_int64(l, 1)),
                                                 zt_lower_shape(l, 1));
    const int first = ZT_LOWER(l, -1, "Sub", query, zt_lower_int64(l, a->window));
    return both(l, ZT_LOWER(l, -1, "LessOrEqual", key, query), a->window ? ZT_LOWER(l, -1, "Greater", key, first) : -1);
}

/* The bias with -infinity where `kept` is not, one of the two where the other is -1. */
static int masked(struct zt_lowering *l, int bias, int kept) {
    if (bias < 0 || kept < 0)
        return bias < 0 ? kept : bias;
    return ZT_LOWER(l, -1, "Where", kept, bias,
                    zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, -(double)INFINITY));
}

/* ---- the sink ---- */

static bool has_sink(const struct zt_lowering *l) {
    return input(l, SINK) || zt_attr_int(l->n, "smooth_softmax", 0) > 0;
}

/* The bias [batch, heads, rows, 1 + keys] with the sinks in front. It says which keys a query sees, since windows leave
 * out the first key. */
static int with_sink(struct zt_lowering *l, const struct group_query *a) {
    const struct zt_attr last = { .name = "axis", .type = ZT_ATTR_INT, .i = -1 };
    const int zero = zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, 0);
    const int of_keys =
        masked(l, zt_lower_in(l, BIAS) < 0 ? zero : l->n->in[BIAS], both(l, unpadded(l, a), seen(l, a)));
    const int sink = input(l, SINK) ? ZT_LOWER(l, -1, "Reshape", l->n->in[SINK], zt_lower_shape(l, 1, -1, 1, 1)) : zero;
    return ZT_LOWER_WITH(l, -1, "Concat", &last, 1,
                         ZT_LOWER(l, -1, "Expand", sink, zt_lower_shape(l, a->batch, a->heads, a->rows, 1)),
                         ZT_LOWER(l, -1, "Expand", of_keys, zt_lower_shape(l, a->batch, a->heads, a->rows, a->keys)));
}

/* The past with a row of zeros before it. */
static int after_zeros(struct zt_lowering *l, const struct group_query *a, int past) {
    const struct zt_attr rows = { .name = "axis", .type = ZT_ATTR_INT, .i = 2 };
    const int zeros = ZT_LOWER(l, -1, "Expand", zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, 0),
                               zt_lower_shape(l, a->batch, a->kv_heads, 1, a->size));
    return past < 0 ? zeros : ZT_LOWER_WITH(l, -1, "Concat", &rows, 1, zeros, past);
}

/* ---- quantized caches ---- */

/* [batch, heads, rows, size] as [batch, rows, heads * size]. */
static int as_rows(struct zt_lowering *l, int x) {
    static const int64_t swapped[] = { 0, 2, 1, 3 };
    const struct zt_attr perm = { .name = "perm", .type = ZT_ATTR_INTS, .count = 4, .ints = swapped };
    return ZT_LOWER(l, -1, "Reshape", ZT_LOWER_WITH(l, -1, "Transpose", &perm, 1, x), zt_lower_shape(l, 0, 0, -1));
}

/* The reverse, which writes value `out` (-1: a new one). */
static int by_head(struct zt_lowering *l, int out, int x, int64_t heads) {
    static const int64_t swapped[] = { 0, 2, 1, 3 };
    const struct zt_attr perm = { .name = "perm", .type = ZT_ATTR_INTS, .count = 4, .ints = swapped };
    return ZT_LOWER_WITH(l, out, "Transpose", &perm, 1,
                         ZT_LOWER(l, -1, "Reshape", x, zt_lower_shape(l, 0, 0, heads, -1)));
}

/* The scale of keys (0) or values (1), a number or a vector of the last axis of rows; -1: neither. */
static int scale_of(struct zt_lowering *l, const struct group_query *a, int i) {
    const struct zt_value *scale = input(l, K_SCALE + i);
    const int64_t count = zt_shape_count(&scale->shape), columns = a->kv_heads * a->size, shape[] = { columns };
    if (count != 1 && count != columns) {
        ZT_LOWER_FAIL(l, "\"%s\" has %lld numbers, wants 1 or %lld", scale->name, (long long)count, (long long)columns);
        return -1;
    }
    return ZT_LOWER(l, -1, "Reshape", scale->id, zt_graph_add_ints(l->g, NULL, shape, count != 1));
}

static int to_integers(struct zt_lowering *l, int rows, int scale) {
    const struct zt_attr attrs[] = { { .name = "axis", .type = ZT_ATTR_INT, .i = 2 },
                                     { .name = "output_dtype", .type = ZT_ATTR_INT, .i = ZT_INT8 } };
    return ZT_LOWER_WITH(l, -1, "QuantizeLinear", attrs, 2, rows, scale);
}

/* Keys and values, past and new ones, as the cache holds them. */
static void round_to_cache(struct zt_lowering *l, struct group_query *a) {
    const struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = 2 };
    for (int i = 0; i < 2; i++) {
        const int scale = quantized(l, i) && !l->failed ? scale_of(l, a, i) : -1;
        if (scale < 0)
            continue;
        a->part[K + i] =
            ZT_LOWER_WITH(l, -1, "DequantizeLinear", &axis, 1, to_integers(l, a->part[K + i], scale), scale);
        if (a->past[i] >= 0)
            a->past[i] = by_head(
                l, -1, ZT_LOWER_WITH(l, -1, "DequantizeLinear", &axis, 1, as_rows(l, a->past[i]), scale), a->kv_heads);
    }
}

/* The present keys (0) or values (1); those of a buffer are there unless they are quantized. */
static void write_present(struct zt_lowering *l, const struct group_query *a, int i) {
    const int out = zt_lower_out(l, 1 + i), x = a->part[K + i];
    if (out < 0 || l->failed)
        return;
    if (quantized(l, i)) {
        const int rows = a->lengths >= 0 ? x : as_rows(l, zt_lower_present(l, -1, a->past[i], x, a->kv_heads));
        by_head(l, out, to_integers(l, rows, scale_of(l, a, i)), a->kv_heads);
    } else if (a->lengths < 0)
        zt_lower_present(l, out, a->past[i], x, a->kv_heads);
}

/* ---- the node ---- */

static void attend(struct zt_lowering *l, const struct group_query *a) {
    const bool sink = has_sink(l), in_mask = sink || a->lengths >= 0; /* what each query sees */
    const float scale = zt_attr_float(l->n, "scale", 0);
    struct zt_attr attrs[6] = {
        { .name = "q_num_heads", .type = ZT_ATTR_INT, .i = a->heads },
        { .name = "kv_num_heads", .type = ZT_ATTR_INT, .i = a->kv_heads },
        { .name = "is_causal", .type = ZT_ATTR_INT, .i = a->causal && !in_mask },
        { .name = "softcap", .type = ZT_ATTR_FLOAT, .f = zt_attr_float(l->n, "softcap", 0) },
    };
    int count = 4;
    if (scale != 0)
        attrs[count++] = (struct zt_attr){ .name = "scale", .type = ZT_ATTR_FLOAT, .f = scale };
    if (a->window && !in_mask)
        attrs[count++] = (struct zt_attr){ .name = "left_window_size", .type = ZT_ATTR_INT, .i = a->window - 1 };
    const int kept = sink ? -1 : both(l, unpadded(l, a), in_mask ? seen(l, a) : -1);
    const int mask = sink ? with_sink(l, a) : masked(l, zt_lower_in(l, BIAS), kept);
    const int in[] = { a->part[Q],
                       a->part[K],
                       a->part[V],
                       mask,
                       sink ? after_zeros(l, a, a->past[0]) : a->past[0],
                       sink ? after_zeros(l, a, a->past[1]) : a->past[1] };
    zt_lower(l, l->n->out[0],
             &(struct zt_expand_node){ "Attention", in,
                                       in[4] >= 0  ? 6
                                       : mask >= 0 ? 4
                                                   : 3,
                                       attrs, count });
}

static void group_query(struct zt_lowering *l) {
    struct group_query a;
    refuse(l);
    if (!zt_lower_needs(l, (const int[]){ LENGTHS, TOTAL, -1 }) || !read_operands(l, &a))
        return;
    check_filled(l, &a);
    rotate(l, &a);
    round_to_cache(l, &a);
    fill(l, &a);
    attend(l, &a);
    for (int i = 0; i < 2; i++)
        write_present(l, &a, i);
}

ZT_LOWERED(group_query)

static const struct zt_attr_spec group_query_attrs[] = { { "causal", ZT_ATTR_INT },
                                                         { "do_rotary", ZT_ATTR_INT },
                                                         { "k_quant_type", ZT_ATTR_STRING },
                                                         { "kv_cache_bit_width", ZT_ATTR_INT },
                                                         { "kv_num_heads", ZT_ATTR_INT, true },
                                                         { "local_window_size", ZT_ATTR_INT },
                                                         { "num_heads", ZT_ATTR_INT, true },
                                                         { "qk_norm_epsilon", ZT_ATTR_FLOAT },
                                                         { "qk_output", ZT_ATTR_INT },
                                                         { "rotary_interleaved", ZT_ATTR_INT },
                                                         { "scale", ZT_ATTR_FLOAT },
                                                         { "sliding_window_cache", ZT_ATTR_INT },
                                                         { "smooth_softmax", ZT_ATTR_INT },
                                                         { "softcap", ZT_ATTR_FLOAT },
                                                         { "v_quant_type", ZT_ATTR_STRING },
                                                         { 0 } };

const struct zt_op zt_op_group_query_attention = {
    .name = "GroupQueryAttention",
    .domain = "com.microsoft",
    .since = 1,
    .min_in = 1,
    .max_in = INS,
    .min_out = 1,
    .max_out = 4,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_TYPE, ZT_ANY_TYPE, ZT_BIT(ZT_INT32),
                  ZT_BIT(ZT_INT32), ZT_ANY_TYPE },
    .same_type = 1 << K | 1 << V,
    .attrs = group_query_attrs,
    .no_grad_in = 1 << LENGTHS | 1 << TOTAL | 1 << POSITIONS,
    .scale_in = 1 << K_SCALE | 1 << (K_SCALE + 1),
    .expand = group_query_expand,
};
