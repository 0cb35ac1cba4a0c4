/* Normalizations, which onnxruntime's optimizer makes of their parts:
 *
 *     SkipLayerNormalization            y = LayerNormalization(s),  s = x + skip + bias
 *     SkipSimplifiedLayerNormalization  y = RMSNormalization(s)
 *     EmbedLayerNormalization           y = LayerNormalization(s),  s = words[id] + positions[i] + segments[id]
 *
 * and in ONNX's own domain, in models of opsets that lack these operators:
 *
 *     LayerNormalization                that of opset 17
 *     SimplifiedLayerNormalization      RMSNormalization */
#include "ops/lowered/lowering.h"

static const char *const shape_names[] = { "axis", "epsilon", "stash_type", NULL };

static void layer_norm(struct zt_lowering *l) {
    int count, *out = zt_arena_copy(l->g->arena, l->n->out, (size_t)l->n->out_count * sizeof *out);
    const struct zt_attr *attrs = zt_lower_attrs(l, shape_names, &count);
    zt_lower_all(l, &(struct zt_expand_node){ "LayerNormalization", l->n->in, l->n->in_count, attrs, count }, out,
                 l->n->out_count);
}

static void rms_norm(struct zt_lowering *l) {
    int count;
    const struct zt_attr *attrs = zt_lower_attrs(l, shape_names, &count);
    zt_lower_refuse_out(l, 1, 1, "the inverse of the deviation");
    ZT_LOWER_WITH(l, l->n->out[0], "RMSNormalization", attrs, count, l->n->in[0], l->n->in[1]);
}

/* Along the last axis; the default of epsilon is not that of ONNX. */
static void normalize(struct zt_lowering *l, const char *op, int sum, int scale, int bias) {
    const struct zt_attr epsilon = { .name = "epsilon",
                                     .type = ZT_ATTR_FLOAT,
                                     .f = zt_attr_float(l->n, "epsilon", 1e-12F) };
    zt_lower(l, l->n->out[0],
             &(struct zt_expand_node){ op, (const int[]){ sum, scale, bias }, bias < 0 ? 2 : 3, &epsilon, 1 });
}

enum { SKIP_SUM = 3, EMBED_SUM = 2 }; /* outputs */

static int skip_sum(struct zt_lowering *l, int bias) {
    zt_lower_refuse_out(l, 1, 2, "mean or deviation");
    const int sum = ZT_LOWER(l, bias < 0 ? zt_lower_out(l, SKIP_SUM) : -1, "Add", l->n->in[0], l->n->in[1]);
    return bias < 0 ? sum : ZT_LOWER(l, zt_lower_out(l, SKIP_SUM), "Add", sum, bias);
}

static void skip_layer_norm(struct zt_lowering *l) {
    normalize(l, "LayerNormalization", skip_sum(l, zt_lower_in(l, 4)), l->n->in[2], zt_lower_in(l, 3));
}

static void skip_rms_norm(struct zt_lowering *l) {
    normalize(l, "RMSNormalization", skip_sum(l, zt_lower_in(l, 3)), l->n->in[2], -1);
}

/* ---- EmbedLayerNormalization ---- */

enum { IDS, SEGMENT_IDS, WORDS, POSITIONS, SEGMENTS, GAMMA, BETA, MASK, POSITION_IDS };

/* The rows of positions 0, 1, .., or of those that are given. */
static int positions(struct zt_lowering *l) {
    if (zt_lower_in(l, POSITION_IDS) >= 0)
        return ZT_LOWER(l, -1, "Gather", l->n->in[POSITIONS], l->n->in[POSITION_IDS]);
    const int64_t zero = 0, length = zt_lower_first(l)->shape.dim[1];
    return ZT_LOWER(l, -1, "Slice", l->n->in[POSITIONS], zt_graph_add_ints(l->g, NULL, &zero, 1),
                    zt_graph_add_ints(l->g, NULL, &length, 1), zt_graph_add_ints(l->g, NULL, &zero, 1));
}

/* Output 1: how many elements of each row of the mask are 1; without a mask, zeros. */
static void count_mask(struct zt_lowering *l) {
    const int64_t one = 1;
    const struct zt_attr keepdims = { .name = "keepdims", .type = ZT_ATTR_INT, .i = 0 };
    if (zt_lower_out(l, 1) < 0)
        return;
    if (zt_lower_in(l, MASK) < 0) {
        ZT_LOWER(l, l->n->out[1], "Expand", zt_lower_int32(l, 0), zt_lower_shape(l, zt_lower_first(l)->shape.dim[0]));
        return;
    }
    ZT_LOWER_WITH(l, l->n->out[1], "ReduceSum", &keepdims, 1, zt_lower_in(l, MASK),
                  zt_graph_add_ints(l->g, NULL, &one, 1));
}

static void embed_layer_norm(struct zt_lowering *l) {
    if (!zt_lower_needs(l, (const int[]){ WORDS, POSITIONS, GAMMA, BETA, -1 }))
        return;
    if (zt_lower_first(l)->shape.rank != 2) {
        ZT_LOWER_FAIL(l, "its ids have %d axes, wants 2", zt_lower_first(l)->shape.rank);
        return;
    }
    const int ids = zt_lower_in(l, SEGMENT_IDS), table = zt_lower_in(l, SEGMENTS);
    const int segments = ids >= 0 && table >= 0 ? ZT_LOWER(l, -1, "Gather", table, ids) : -1;
    const int words = ZT_LOWER(l, -1, "Gather", l->n->in[WORDS], l->n->in[IDS]), sum = zt_lower_out(l, EMBED_SUM);
    const int both = ZT_LOWER(l, segments < 0 ? sum : -1, "Add", words, positions(l));
    count_mask(l);
    normalize(l, "LayerNormalization", segments < 0 ? both : ZT_LOWER(l, sum, "Add", both, segments), l->n->in[GAMMA],
              l->n->in[BETA]);
}

/* ---- rows ---- */

ZT_LOWERED(layer_norm)
ZT_LOWERED(rms_norm)
ZT_LOWERED(skip_layer_norm)
ZT_LOWERED(skip_rms_norm)
ZT_LOWERED(embed_layer_norm)

static const struct zt_attr_spec shape_attrs[] = {
    { "axis", ZT_ATTR_INT }, { "epsilon", ZT_ATTR_FLOAT }, { "stash_type", ZT_ATTR_INT, .element_type = true }, { 0 }
};
static const struct zt_attr_spec with_epsilon[] = { { "epsilon", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec embed_attrs[] = { { "epsilon", ZT_ATTR_FLOAT },
                                                   { "mask_index_type", ZT_ATTR_INT },
                                                   { 0 } };

#define ANY_INDEX (ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64))

#define PLAIN_ROW(id, NAME, UNTIL, MOST_IN, MOST_OUT, EXPAND)                                                          \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = 1,                                                                                                    \
        .until = UNTIL,                                                                                                \
        .min_in = 2,                                                                                                   \
        .max_in = MOST_IN,                                                                                             \
        .min_out = 1,                                                                                                  \
        .max_out = MOST_OUT,                                                                                           \
        .in_types = { ZT_ANY_FLOAT },                                                                                  \
        .attrs = shape_attrs,                                                                                          \
        .expand = EXPAND##_expand,                                                                                     \
    };
#define SKIP_ROW(id, NAME, MOST_IN, EXPAND)                                                                            \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "com.microsoft",                                                                                     \
        .since = 1,                                                                                                    \
        .min_in = 3,                                                                                                   \
        .max_in = MOST_IN,                                                                                             \
        .min_out = 1,                                                                                                  \
        .max_out = 4,                                                                                                  \
        .in_types = { ZT_ANY_FLOAT },                                                                                  \
        .same_type = 0x1e,                                                                                             \
        .attrs = with_epsilon,                                                                                         \
        .expand = EXPAND##_expand,                                                                                     \
    };

PLAIN_ROW(layer_norm_1, "LayerNormalization", 16, 3, 3, layer_norm)
PLAIN_ROW(simplified_layer_norm, "SimplifiedLayerNormalization", 0, 2, 2, rms_norm)
SKIP_ROW(skip_layer_norm, "SkipLayerNormalization", 5, skip_layer_norm)
SKIP_ROW(skip_simplified_layer_norm, "SkipSimplifiedLayerNormalization", 4, skip_rms_norm)

const struct zt_op zt_op_embed_layer_norm = {
    .name = "EmbedLayerNormalization",
    .domain = "com.microsoft",
    .since = 1,
    .min_in = 1,
    .max_in = 9,
    .min_out = 1,
    .max_out = 3,
    .in_types = { ANY_INDEX, ANY_INDEX, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT,
                  ANY_INDEX },
    .attrs = embed_attrs,
    .no_grad_in = 1 << IDS | 1 << SEGMENT_IDS | 1 << MASK | 1 << POSITION_IDS,
    .expand = embed_layer_norm_expand,
};
