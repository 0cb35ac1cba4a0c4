/* Convolutions and pools on tensors in other orders than N C H W, as those of ONNX between reorders.
 *
 * com.ms.internal.nhwc (onnxruntime, where an execution provider asks for it) and qonnx.custom_op.channels_last (QONNX,
 * where the weights are O H W I too): channels last, N H W C.
 *
 * com.microsoft.nchwc: convolutions and pools on tensors whose channels lie in blocks, which onnxruntime's optimizer
 * writes at level "all" (NchwcTransformer; kernels: MLAS, snchwc.cpp and reorder.cpp).
 *
 *     [N, C, H, W]  --ReorderInput-->  [N, C', H, W]  --ReorderOutput-->  [N, channels, H, W]
 *
 * C' is C rounded up to a whole block: 16 channels where the CPU has AVX-512F, and on aarch64, else 8. The channels
 * from C on are zeros. Blocks are an order in memory, so here tensors are ordinary ones with C' channels, and other
 * nodes between these (Relu, Concat of channels) read them as they are. Only the weights of Conv, which the optimizer
 * has reordered in the file, must be put back. b is the block, in order of memory:
 *
 *     I < b     [O / b, I, H, W, b of O]                (one channel a group: depthwise; or an input that is not
 *                                                        reordered)
 *     else      [O / b, I / b, H, W, b of I, b of O]
 *
 * The file does not say what b is: as for onnxruntime itself, it is that of the machine. Channels that do not divide by
 * it show that another one has written the file. */
#include "ops/lowered/fused.h"

#include <string.h>

static int64_t block_size(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
    return 16;
#endif
}

static int transpose(struct zt_lowering *l, int out, int value, const int64_t *order, int rank) {
    const struct zt_attr perm = { .name = "perm", .type = ZT_ATTR_INTS, .count = rank, .ints = order };
    return ZT_LOWER_WITH(l, out, "Transpose", &perm, 1, value);
}

/* Fails where the value has not 4 axes, or so many channels that some are no whole block. */
static bool check_blocks(struct zt_lowering *l, const struct zt_value *v, int64_t channels) {
    const int64_t b = block_size();
    char text[ZT_SHAPE_TEXT];
    if (v->shape.rank != 4)
        ZT_LOWER_FAIL(l, "\"%s\" has shape %s, wants 4 axes", v->name, zt_shape_text(&v->shape, text));
    else if (channels % b)
        ZT_LOWER_FAIL(l,
                      "%lld channels are no blocks of %lld, the layout of this CPU: onnxruntime has written the file "
                      "on another one",
                      (long long)channels, (long long)b);
    return !l->failed;
}

/* ---- reorders ---- */

static void reorder_input(struct zt_lowering *l) {
    static const int64_t to_front[] = { 0, 3, 1, 2 };
    const struct zt_shape *x = &zt_lower_first(l)->shape;
    const bool last = zt_attr_int(l->n, "channels_last", 0) != 0;
    if (!check_blocks(l, zt_lower_first(l), 0))
        return;
    const int64_t more = -x->dim[last ? 3 : 1] & (block_size() - 1);
    const int front = last ? transpose(l, more ? -1 : l->n->out[0], l->n->in[0], to_front, 4) : l->n->in[0];
    if (more)
        ZT_LOWER(l, l->n->out[0], "Pad", front, zt_lower_shape(l, 0, 0, 0, 0, 0, more, 0, 0));
    else if (!last)
        ZT_LOWER(l, l->n->out[0], "Identity", front);
}

static void reorder_output(struct zt_lowering *l) {
    static const int64_t to_back[] = { 0, 2, 3, 1 };
    const int64_t channels = zt_attr_int(l->n, "channels", 0);
    const bool last = zt_attr_int(l->n, "channels_last", 0) != 0;
    if (!check_blocks(l, zt_lower_first(l), zt_lower_first(l)->shape.dim[1]))
        return;
    if (channels < 1 || channels > zt_lower_first(l)->shape.dim[1]) {
        ZT_LOWER_FAIL(l, "channels = %lld, of %lld", (long long)channels, (long long)zt_lower_first(l)->shape.dim[1]);
        return;
    }
    const int kept = ZT_LOWER(l, last ? -1 : l->n->out[0], "Slice", l->n->in[0], zt_lower_shape(l, 0),
                              zt_lower_shape(l, channels), zt_lower_shape(l, 1));
    if (last)
        transpose(l, l->n->out[0], kept, to_back, 4);
}

/* ---- Conv ---- */

/* The filter as Conv reads it. */
static int filter(struct zt_lowering *l) {
    static const int64_t of_outputs[] = { 0, 4, 1, 2, 3 }, of_both[] = { 0, 5, 1, 4, 2, 3 };
    const struct zt_value *w = zt_in(l->g, l->x->node, 1);
    const int64_t *d = w->shape.dim, b = block_size();
    if (!check_blocks(l, w, w->shape.rank == 4 ? d[0] : 0) || (d[1] >= b && !check_blocks(l, w, d[1])))
        return -1;
    const bool both = d[1] >= b;
    const int blocks = ZT_LOWER(l, -1, "Reshape", w->id,
                                both ? zt_lower_shape(l, d[0] / b, d[1] / b, d[2], d[3], b, b)
                                     : zt_lower_shape(l, d[0] / b, d[1], d[2], d[3], b));
    const int ordered = transpose(l, -1, blocks, both ? of_both : of_outputs, both ? 6 : 5);
    return ZT_LOWER(l, -1, "Reshape", ordered, zt_graph_add_ints(l->g, NULL, d, 4));
}

static void nchwc_conv(struct zt_lowering *l) {
    zt_lower_fused_conv(l, filter(l));
}

/* ---- pools and Upsample ---- */

/* The operator of ONNX of the same name and attributes. */
static void same(struct zt_lowering *l) {
    zt_lower(l, l->n->out[0], &(struct zt_expand_node){ l->n->op_type, l->n->in, 1, l->n->attr, l->n->attr_count });
}

/* Resize by whole numbers; nearest repeats every element. */
static void nchwc_upsample(struct zt_lowering *l) {
    const char *mode = zt_attr_text(l->n, "mode", "nearest");
    const bool nearest = strcmp(mode, "nearest") == 0;
    const struct zt_attr *factors = zt_node_attr(l->n, "scales");
    const struct zt_attr attrs[] = {
        { .name = "mode", .type = ZT_ATTR_STRING, .s = mode },
        { .name = "coordinate_transformation_mode",
          .type = ZT_ATTR_STRING,
          .s = nearest ? "asymmetric" : zt_attr_text(l->n, "coordinate_transformation_mode", "asymmetric") },
        { .name = "nearest_mode", .type = ZT_ATTR_STRING, .s = "floor" },
    };
    float scales[4];
    if (factors && factors->count != 4) {
        ZT_LOWER_FAIL(l, "attribute \"scales\" has %d entries, wants 4", factors->count);
        return;
    }
    for (int k = 0; k < 4; k++)
        scales[k] = factors ? (float)factors->ints[k] : 1;
    const int by = zt_graph_add_constant(l->g, NULL, ZT_FLOAT, &(struct zt_shape){ .rank = 1, .dim = { 4 } }, scales);
    ZT_LOWER_WITH(l, l->n->out[0], "Resize", attrs, nearest ? 3 : 2, l->n->in[0], -1, by);
}

/* ---- channels last ---- */

/* The value with its channels, the last axis, behind the first axis; `back`: the reverse. */
static int move_channels(struct zt_lowering *l, int out, int value, int rank, bool back) {
    int64_t order[ZT_MAX_RANK] = { 0 };
    for (int k = 1; k < rank; k++)
        order[k] = back ? (k < rank - 1 ? k + 1 : 1) : k > 1 ? k - 1 : rank - 1;
    return transpose(l, out, value, zt_arena_copy(l->g->arena, order, (size_t)rank * sizeof *order), rank);
}

/* The operator of ONNX of the same name; `last`: inputs whose channels are last (bitmask). */
static void channels_last(struct zt_lowering *l, unsigned last) {
    int in[3] = { -1, -1, -1 };
    const int rank = zt_lower_first(l)->shape.rank;
    for (int i = 0; i < l->n->in_count; i++) {
        const struct zt_value *v = zt_in(l->g, l->x->node, i);
        if (v && last >> i & 1 && (v->shape.rank != rank || rank < 3)) {
            ZT_LOWER_FAIL(l, "\"%s\" has %d axes, wants %d", v->name, v->shape.rank, rank < 3 ? 3 : rank);
            return;
        }
        in[i] = v && last >> i & 1 ? move_channels(l, -1, v->id, rank, false) : l->n->in[i];
    }
    const int y =
        zt_lower(l, -1, &(struct zt_expand_node){ l->n->op_type, in, l->n->in_count, l->n->attr, l->n->attr_count });
    move_channels(l, l->n->out[0], y, rank, true);
}

static void nhwc(struct zt_lowering *l) {
    channels_last(l, 1);
}

static void nhwc_weights(struct zt_lowering *l) {
    channels_last(l, 3);
}

/* ---- rows ---- */

ZT_LOWERED(reorder_input)
ZT_LOWERED(reorder_output)
ZT_LOWERED(nchwc_conv)
ZT_LOWERED(same)
ZT_LOWERED(nchwc_upsample)
ZT_LOWERED(nhwc)
ZT_LOWERED(nhwc_weights)

static const struct zt_attr_spec input_attrs[] = { { "channels_last", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec output_attrs[] = { { "channels", ZT_ATTR_INT, true },
                                                    { "channels_last", ZT_ATTR_INT },
                                                    { 0 } };
static const struct zt_attr_spec max_attrs[] = { { "auto_pad", ZT_ATTR_STRING }, { "ceil_mode", ZT_ATTR_INT },
                                                 { "dilations", ZT_ATTR_INTS },  { "kernel_shape", ZT_ATTR_INTS, true },
                                                 { "pads", ZT_ATTR_INTS },       { "storage_order", ZT_ATTR_INT },
                                                 { "strides", ZT_ATTR_INTS },    { 0 } };
static const struct zt_attr_spec average_attrs[] = { { "auto_pad", ZT_ATTR_STRING },
                                                     { "ceil_mode", ZT_ATTR_INT },
                                                     { "count_include_pad", ZT_ATTR_INT },
                                                     { "dilations", ZT_ATTR_INTS },
                                                     { "kernel_shape", ZT_ATTR_INTS, true },
                                                     { "pads", ZT_ATTR_INTS },
                                                     { "strides", ZT_ATTR_INTS },
                                                     { 0 } };
static const struct zt_attr_spec upsample_attrs[] = {
    { "coordinate_transformation_mode", ZT_ATTR_STRING }, { "mode", ZT_ATTR_STRING }, { "scales", ZT_ATTR_INTS }, { 0 }
};

#define LAYOUT_ROW(id, DOMAIN, NAME, LEAST, MOST, EXPAND, ATTRS)                                                       \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = DOMAIN,                                                                                              \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(LEAST, MOST),                                                                                       \
        .in_types = { ZT_BIT(ZT_FLOAT) },                                                                              \
        .same_type = 0xe,                                                                                              \
        .attrs = ATTRS,                                                                                                \
        .expand = EXPAND##_expand,                                                                                     \
    };
#define BLOCKS "com.microsoft.nchwc"
#define LAST   "com.ms.internal.nhwc"
#define QONNX  "qonnx.custom_op.channels_last"

LAYOUT_ROW(nchwc_average_pool, BLOCKS, "AveragePool", 1, 1, same, average_attrs)
LAYOUT_ROW(nchwc_conv, BLOCKS, "Conv", 2, 4, nchwc_conv, zt_fused_conv_attrs)
LAYOUT_ROW(nchwc_global_average_pool, BLOCKS, "GlobalAveragePool", 1, 1, same, NULL)
LAYOUT_ROW(nchwc_global_max_pool, BLOCKS, "GlobalMaxPool", 1, 1, same, NULL)
LAYOUT_ROW(nchwc_max_pool, BLOCKS, "MaxPool", 1, 1, same, max_attrs)
LAYOUT_ROW(nchwc_reorder_input, BLOCKS, "ReorderInput", 1, 1, reorder_input, input_attrs)
LAYOUT_ROW(nchwc_reorder_output, BLOCKS, "ReorderOutput", 1, 1, reorder_output, output_attrs)
LAYOUT_ROW(nchwc_upsample, BLOCKS, "Upsample", 1, 1, nchwc_upsample, upsample_attrs)

LAYOUT_ROW(nhwc_average_pool, LAST, "AveragePool", 1, 1, nhwc, average_attrs)
LAYOUT_ROW(nhwc_conv, LAST, "Conv", 2, 3, nhwc, zt_fused_conv_attrs)
LAYOUT_ROW(nhwc_global_average_pool, LAST, "GlobalAveragePool", 1, 1, nhwc, NULL)
LAYOUT_ROW(nhwc_global_max_pool, LAST, "GlobalMaxPool", 1, 1, nhwc, NULL)
LAYOUT_ROW(nhwc_internal_max_pool, LAST, "MaxPool", 1, 1, nhwc, max_attrs)

LAYOUT_ROW(qonnx_conv, QONNX, "Conv", 2, 3, nhwc_weights, zt_fused_conv_attrs)
LAYOUT_ROW(qonnx_max_pool, QONNX, "MaxPool", 1, 1, nhwc, max_attrs)
