/* Operators of ONNX in their forms before opset 7, as exporters of 2017 and 2018 write them, as those of today.
 *
 *     consumed_inputs     (before opset 6) says which inputs may be overwritten: nothing else
 *     broadcast, axis     b has the axes of a from `axis` on, from its last ones without: b gets the axes that follow
 *     PRelu               a slope for each channel is [C] without the axes that follow
 *     is_test             0: BatchNormalization and Dropout in their training mode
 *     Cast                `to` is the name of the type
 *     Clip, Reshape, Pad, Split, Upsample
 *                         the attributes min and max, shape, paddings and value, split, height_scale and width_scale
 *                         became inputs
 *     LpPool, GlobalLpPool  p was a float
 *     RNN, LSTM, GRU      output_sequence says whether output 0 is there: nothing else */
#include "ops/lowered/lowering.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

/* ---- the same operator ---- */

/* The operator of today of the same name without the attributes that are no more. */
static void same(struct zt_lowering *l) {
    static const char *const gone[] = { "broadcast", "consumed_inputs", "output_sequence" };
    struct zt_attr *kept = ZT_NEW_N(l->g->arena, struct zt_attr, l->n->attr_count + 1);
    int count = 0;
    for (int i = 0; i < l->n->attr_count; i++) {
        bool stays = true;
        for (size_t k = 0; k < sizeof gone / sizeof *gone; k++)
            stays &= strcmp(l->n->attr[i].name, gone[k]) != 0;
        if (stays)
            kept[count++] = l->n->attr[i];
    }
    zt_lower_all(l, &(struct zt_expand_node){ l->n->op_type, l->n->in, l->n->in_count, kept, count }, l->n->out,
                 l->n->out_count);
}

/* ---- broadcasting ---- */

/* Value b with `more` axes of 1 behind its own. */
static int widened(struct zt_lowering *l, const struct zt_value *b, int more) {
    int64_t axes[ZT_MAX_RANK];
    for (int k = 0; k < more; k++)
        axes[k] = b->shape.rank + k;
    return more > 0 ? ZT_LOWER(l, -1, "Unsqueeze", b->id, zt_graph_add_ints(l->g, NULL, axes, more)) : b->id;
}

static void binary(struct zt_lowering *l) {
    const struct zt_value *b = zt_in(l->g, l->x->node, 1);
    int more = 0, axis;
    if (zt_attr_int(l->n, "broadcast", 0) && zt_node_attr(l->n, "axis")) {
        if (!zt_lower_axis(l, zt_attr_int(l->n, "axis", 0), &axis))
            return;
        more = zt_lower_first(l)->shape.rank - axis - b->shape.rank;
        if (more < 0) {
            ZT_LOWER_FAIL(l, "axis %d does not leave the %d axes of \"%s\"", axis, b->shape.rank, b->name);
            return;
        }
    }
    ZT_LOWER(l, l->n->out[0], l->n->op_type, l->n->in[0], widened(l, b, more));
}

static void prelu(struct zt_lowering *l) {
    const struct zt_value *slope = zt_in(l->g, l->x->node, 1);
    const int more = slope->shape.rank == 1 && slope->shape.dim[0] > 1 ? zt_lower_first(l)->shape.rank - 2 : 0;
    ZT_LOWER(l, l->n->out[0], "PRelu", l->n->in[0], widened(l, slope, more));
}

/* ---- training modes ---- */

static void batch_norm(struct zt_lowering *l) {
    static const char *const kept[] = { "epsilon", "momentum", NULL };
    int count, out[3] = { l->n->out[0], -1, -1 };
    struct zt_attr *attrs = zt_lower_attrs(l, kept, &count); /* has room for one more */
    if (!zt_attr_int(l->n, "spatial", 1))
        ZT_LOWER_FAIL(l, "spatial = 0 is not supported");
    zt_lower_refuse_out(l, 1, 4, "statistics");
    const bool trains = !zt_attr_int(l->n, "is_test", 0);
    attrs[count] = (struct zt_attr){ .name = "training_mode", .type = ZT_ATTR_INT, .i = 1 };
    zt_lower_all(l, &(struct zt_expand_node){ "BatchNormalization", l->n->in, 5, attrs, count + trains }, out,
                 trains ? 3 : 1);
}

static void dropout(struct zt_lowering *l) {
    const bool trains = true;
    const int ratio = zt_graph_add_float(l->g, NULL, ZT_FLOAT, (double)zt_attr_float(l->n, "ratio", 0.5F));
    const int mode = zt_graph_add_constant(l->g, NULL, ZT_BOOL, &(struct zt_shape){ 0 }, &trains);
    const struct zt_attr to = { .name = "to", .type = ZT_ATTR_INT, .i = zt_lower_first(l)->dtype };
    int out[2] = { l->n->out[0], -1 };
    zt_lower_all(l,
                 &(struct zt_expand_node){ "Dropout", (const int[]){ l->n->in[0], ratio, mode },
                                           zt_attr_int(l->n, "is_test", 0) ? 2 : 3 },
                 out, 2);
    if (zt_lower_out(l, 1) >= 0) /* the mask was of the input's type */
        ZT_LOWER_WITH(l, l->n->out[1], "Cast", &to, 1, out[1]);
}

/* ---- attributes that became inputs ---- */

static void clip(struct zt_lowering *l) {
    static const char *const names[] = { "min", "max" };
    int in[3] = { l->n->in[0], -1, -1 };
    for (int i = 0; i < 2; i++)
        if (zt_node_attr(l->n, names[i]))
            in[1 + i] =
                zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, (double)zt_attr_float(l->n, names[i], 0));
    zt_lower(l, l->n->out[0], &(struct zt_expand_node){ "Clip", in, 3 });
}

static void cast(struct zt_lowering *l) {
    const char *to = zt_attr_text(l->n, "to", "");
    for (int type = ZT_FLOAT; type <= ZT_DOUBLE; type++)
        if (zt_dtype_bytes((enum zt_dtype)type) && strcasecmp(zt_dtype_name((enum zt_dtype)type), to) == 0) {
            const struct zt_attr attr = { .name = "to", .type = ZT_ATTR_INT, .i = type };
            ZT_LOWER_WITH(l, l->n->out[0], "Cast", &attr, 1, l->n->in[0]);
            return;
        }
    ZT_LOWER_FAIL(l, "casts to type \"%s\", which is not supported", to);
}

static void concat(struct zt_lowering *l) {
    const struct zt_attr axis = { .name = "axis", .type = ZT_ATTR_INT, .i = zt_attr_int(l->n, "axis", 1) };
    zt_lower(l, l->n->out[0], &(struct zt_expand_node){ "Concat", l->n->in, l->n->in_count, &axis, 1 });
}

static void reshape(struct zt_lowering *l) {
    int count = 0;
    const int64_t *shape = zt_attr_ints(l->n, "shape", &count);
    ZT_LOWER(l, l->n->out[0], "Reshape", l->n->in[0], zt_graph_add_ints(l->g, NULL, shape, count));
}

static void pad(struct zt_lowering *l) {
    static const char *const of_pad[] = { "mode", NULL };
    int count, sides = 0;
    const struct zt_attr *attrs = zt_lower_attrs(l, of_pad, &count);
    const int64_t *pads = zt_attr_ints(l->n, "paddings", &sides);
    ZT_LOWER_WITH(l, l->n->out[0], "Pad", attrs, count, l->n->in[0], zt_graph_add_ints(l->g, NULL, pads, sides),
                  zt_graph_add_float(l->g, NULL, zt_lower_first(l)->dtype, (double)zt_attr_float(l->n, "value", 0)));
}

static void split(struct zt_lowering *l) {
    int count = 0;
    const int64_t *sizes = zt_attr_ints(l->n, "split", &count);
    const struct zt_attr attrs[] = { { .name = "axis", .type = ZT_ATTR_INT, .i = zt_attr_int(l->n, "axis", 0) },
                                     { .name = "num_outputs", .type = ZT_ATTR_INT, .i = l->n->out_count } };
    const int in[] = { l->n->in[0], sizes ? zt_graph_add_ints(l->g, NULL, sizes, count) : -1 };
    zt_lower_all(l, &(struct zt_expand_node){ "Split", in, sizes ? 2 : 1, attrs, sizes ? 1 : 2 }, l->n->out,
                 l->n->out_count);
}

static void upsample(struct zt_lowering *l) {
    const char *mode = zt_attr_text(l->n, "mode", "nearest");
    const bool nearest = strcmp(mode, "nearest") == 0;
    const struct zt_attr attrs[] = {
        { .name = "mode", .type = ZT_ATTR_STRING, .s = nearest ? "nearest" : "linear" },
        { .name = "coordinate_transformation_mode", .type = ZT_ATTR_STRING, .s = "asymmetric" },
        { .name = "nearest_mode", .type = ZT_ATTR_STRING, .s = "floor" },
    };
    const float scales[] = { 1, 1, zt_attr_float(l->n, "height_scale", 1), zt_attr_float(l->n, "width_scale", 1) };
    if (zt_lower_first(l)->shape.rank != 4 || (!nearest && strcmp(mode, "bilinear") != 0)) {
        ZT_LOWER_FAIL(l, "wants an input of 4 axes, and mode nearest or bilinear");
        return;
    }
    ZT_LOWER_WITH(l, l->n->out[0], "Resize", attrs, 3, l->n->in[0], -1,
                  zt_graph_add_constant(l->g, NULL, ZT_FLOAT, &(struct zt_shape){ .rank = 1, .dim = { 4 } }, scales));
}

static void lp_pool(struct zt_lowering *l) {
    static const char *const of_pool[] = { "auto_pad", "kernel_shape", "pads", "strides", NULL };
    const float p = zt_attr_float(l->n, "p", 2);
    int count;
    struct zt_attr *attrs = zt_lower_attrs(l, of_pool, &count); /* has room for one more */
    if (!(p >= 1 && p <= 1000) || p != (float)(int)p)
        ZT_LOWER_FAIL(l, "p = %g, wants a whole number", (double)p);
    else
        attrs[count++] = (struct zt_attr){ .name = "p", .type = ZT_ATTR_INT, .i = (int)p };
    ZT_LOWER_WITH(l, l->n->out[0], l->n->op_type, attrs, count, l->n->in[0]);
}

/* ---- rows ---- */

ZT_LOWERED(same)
ZT_LOWERED(binary)
ZT_LOWERED(prelu)
ZT_LOWERED(batch_norm)
ZT_LOWERED(dropout)
ZT_LOWERED(clip)
ZT_LOWERED(cast)
ZT_LOWERED(concat)
ZT_LOWERED(reshape)
ZT_LOWERED(pad)
ZT_LOWERED(split)
ZT_LOWERED(upsample)
ZT_LOWERED(lp_pool)

#define CONSUMED                                                                                                       \
    { "consumed_inputs", ZT_ATTR_INTS }
static const struct zt_attr_spec plain[] = { CONSUMED, { 0 } };
static const struct zt_attr_spec alpha[] = { { "alpha", ZT_ATTR_FLOAT }, CONSUMED, { 0 } };
static const struct zt_attr_spec hard_sigmoid[] = {
    { "alpha", ZT_ATTR_FLOAT }, { "beta", ZT_ATTR_FLOAT }, CONSUMED, { 0 }
};
static const struct zt_attr_spec selu[] = { { "alpha", ZT_ATTR_FLOAT }, CONSUMED, { "gamma", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec instance_norm[] = { CONSUMED, { "epsilon", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec broadcast[] = {
    { "axis", ZT_ATTR_INT }, { "broadcast", ZT_ATTR_INT }, CONSUMED, { 0 }
};
static const struct zt_attr_spec gemm[] = { { "alpha", ZT_ATTR_FLOAT },   { "beta", ZT_ATTR_FLOAT },
                                            { "broadcast", ZT_ATTR_INT }, { "transA", ZT_ATTR_INT },
                                            { "transB", ZT_ATTR_INT },    { 0 } };
static const struct zt_attr_spec norm[] = { CONSUMED,
                                            { "epsilon", ZT_ATTR_FLOAT },
                                            { "is_test", ZT_ATTR_INT },
                                            { "momentum", ZT_ATTR_FLOAT },
                                            { "spatial", ZT_ATTR_INT },
                                            { 0 } };
static const struct zt_attr_spec drop[] = { CONSUMED, { "is_test", ZT_ATTR_INT }, { "ratio", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec limits[] = { CONSUMED, { "max", ZT_ATTR_FLOAT }, { "min", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec type[] = { { "to", ZT_ATTR_STRING, true }, { 0 } };
static const struct zt_attr_spec axis[] = { { "axis", ZT_ATTR_INT }, { 0 } };
static const struct zt_attr_spec shape[] = { CONSUMED, { "shape", ZT_ATTR_INTS, true }, { 0 } };
static const struct zt_attr_spec paddings[] = {
    { "mode", ZT_ATTR_STRING }, { "paddings", ZT_ATTR_INTS, true }, { "value", ZT_ATTR_FLOAT }, { 0 }
};
static const struct zt_attr_spec parts[] = { { "axis", ZT_ATTR_INT }, { "split", ZT_ATTR_INTS }, { 0 } };
static const struct zt_attr_spec factors[] = {
    { "height_scale", ZT_ATTR_FLOAT, true }, { "mode", ZT_ATTR_STRING }, { "width_scale", ZT_ATTR_FLOAT, true }, { 0 }
};
static const struct zt_attr_spec pool[] = { { "auto_pad", ZT_ATTR_STRING }, { "kernel_shape", ZT_ATTR_INTS },
                                            { "p", ZT_ATTR_FLOAT },         { "pads", ZT_ATTR_INTS },
                                            { "strides", ZT_ATTR_INTS },    { 0 } };
static const struct zt_attr_spec power[] = { { "p", ZT_ATTR_FLOAT }, { 0 } };
static const struct zt_attr_spec recurrent[] = {
    { "activation_alpha", ZT_ATTR_FLOATS }, { "activation_beta", ZT_ATTR_FLOATS },
    { "activations", ZT_ATTR_STRINGS },     { "clip", ZT_ATTR_FLOAT },
    { "direction", ZT_ATTR_STRING },        { "hidden_size", ZT_ATTR_INT },
    { "input_forget", ZT_ATTR_INT },        { "linear_before_reset", ZT_ATTR_INT },
    { "output_sequence", ZT_ATTR_INT },     { 0 }
};

/* Up to opset LAST, with OUTS outputs; the last input has any number of successors if MOST is 0. */
#define FORM(id, NAME, LAST, LEAST, MOST, OUTS, EXPAND, ATTRS)                                                         \
    const struct zt_op zt_op_first_##id = {                                                                            \
        .name = NAME,                                                                                                  \
        .since = 1,                                                                                                    \
        .until = LAST,                                                                                                 \
        .min_in = LEAST,                                                                                               \
        .max_in = MOST,                                                                                                \
        .min_out = 1,                                                                                                  \
        .max_out = OUTS,                                                                                               \
        .flags = (MOST) ? 0 : ZT_OP_VARIADIC,                                                                          \
        .in_types = { ZT_ANY_TYPE, ZT_ANY_TYPE, ZT_ANY_TYPE, ZT_ANY_TYPE, ZT_ANY_TYPE, ZT_ANY_TYPE, ZT_ANY_TYPE,       \
                      ZT_ANY_TYPE },                                                                                   \
        .attrs = ATTRS,                                                                                                \
        .expand = EXPAND##_expand,                                                                                     \
    };

FORM(abs, "Abs", 5, 1, 1, 1, same, plain)
FORM(add, "Add", 6, 2, 2, 1, binary, broadcast)
FORM(and, "And", 6, 2, 2, 1, binary, broadcast)
FORM(cast, "Cast", 5, 1, 1, 1, cast, type)
FORM(ceil, "Ceil", 5, 1, 1, 1, same, plain)
FORM(clip, "Clip", 5, 1, 1, 1, clip, limits)
FORM(concat, "Concat", 3, 1, 0, 1, concat, axis)
FORM(div, "Div", 6, 2, 2, 1, binary, broadcast)
FORM(dropout, "Dropout", 6, 1, 1, 2, dropout, drop)
FORM(elu, "Elu", 5, 1, 1, 1, same, alpha)
FORM(equal, "Equal", 6, 2, 2, 1, binary, broadcast)
FORM(exp, "Exp", 5, 1, 1, 1, same, plain)
FORM(floor, "Floor", 5, 1, 1, 1, same, plain)
FORM(gemm, "Gemm", 6, 3, 3, 1, same, gemm)
FORM(global_lp_pool, "GlobalLpPool", 1, 1, 1, 1, lp_pool, power)
FORM(greater, "Greater", 6, 2, 2, 1, binary, broadcast)
FORM(gru, "GRU", 6, 3, 6, 2, same, recurrent)
FORM(hard_sigmoid, "HardSigmoid", 5, 1, 1, 1, same, hard_sigmoid)
FORM(instance_norm, "InstanceNormalization", 5, 3, 3, 1, same, instance_norm)
FORM(leaky_relu, "LeakyRelu", 5, 1, 1, 1, same, alpha)
FORM(less, "Less", 6, 2, 2, 1, binary, broadcast)
FORM(log, "Log", 5, 1, 1, 1, same, plain)
FORM(lp_pool, "LpPool", 1, 1, 1, 1, lp_pool, pool)
FORM(lstm, "LSTM", 6, 3, 8, 3, same, recurrent)
FORM(max, "Max", 5, 1, 0, 1, same, plain)
FORM(mean, "Mean", 5, 1, 0, 1, same, plain)
FORM(min, "Min", 5, 1, 0, 1, same, plain)
FORM(mul, "Mul", 6, 2, 2, 1, binary, broadcast)
FORM(neg, "Neg", 5, 1, 1, 1, same, plain)
FORM(or, "Or", 6, 2, 2, 1, binary, broadcast)
FORM(pad, "Pad", 1, 1, 1, 1, pad, paddings)
FORM(pow, "Pow", 6, 2, 2, 1, binary, broadcast)
FORM(prelu, "PRelu", 6, 2, 2, 1, prelu, plain)
FORM(reciprocal, "Reciprocal", 5, 1, 1, 1, same, plain)
FORM(relu, "Relu", 5, 1, 1, 1, same, plain)
FORM(reshape, "Reshape", 4, 1, 1, 1, reshape, shape)
FORM(rnn, "RNN", 6, 3, 6, 2, same, recurrent)
FORM(selu, "Selu", 5, 1, 1, 1, same, selu)
FORM(sigmoid, "Sigmoid", 5, 1, 1, 1, same, plain)
FORM(split, "Split", 1, 1, 1, INT_MAX, split, parts)
FORM(sqrt, "Sqrt", 5, 1, 1, 1, same, plain)
FORM(sub, "Sub", 6, 2, 2, 1, binary, broadcast)
FORM(sum, "Sum", 5, 1, 0, 1, same, plain)
FORM(tanh, "Tanh", 5, 1, 1, 1, same, plain)
FORM(upsample, "Upsample", 6, 1, 1, 1, upsample, factors)
FORM(xor, "Xor", 6, 2, 2, 1, binary, broadcast)

const struct zt_op zt_op_first_batch_norm = {
    .name = "BatchNormalization",
    .since = 1,
    .until = 6,
    .min_in = 5,
    .max_in = 5,
    .min_out = 1,
    .max_out = 5,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .statistic_in = 1 << 3 | 1 << 4,
    .attrs = norm,
    .expand = batch_norm_expand,
};
