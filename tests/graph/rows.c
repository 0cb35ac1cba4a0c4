#include "rows.h"

#include <stddef.h>

/* Never called: only whether a row has a gradient is looked at. */
static bool no_gradient_is_built(struct zt_grad *b, int node, struct zt_err *err) {
    (void)b;
    (void)node;
    return zt_fail(err, ZT_EXIT_RUN, "no gradient is built here");
}

/* Never called either: it makes a row a product. */
static double some_flops(const struct zt_graph *g, int node) {
    (void)g;
    (void)node;
    return 1;
}

#define FLOWS .max_in = 64, .grad = no_gradient_is_built
static const struct zt_attr_spec some_attributes[] = { { .name = "some", .type = ZT_ATTR_INT }, { .name = NULL } };

static const struct zt_op identity = {
    .name = "Identity", .domain = "", .max_in = 1, .flags = ZT_OP_VIEW, .grad = no_gradient_is_built
};
static const struct zt_op flatten = { .name = "Flatten",
                                      .domain = "",
                                      .max_in = 1,
                                      .flags = ZT_OP_VIEW,
                                      .attrs = some_attributes,
                                      .grad = no_gradient_is_built };

/* Gradient through every input. */
static const struct zt_op add = { .name = "Add", .domain = "", FLOWS };
static const struct zt_op average_pool = { .name = "AveragePool", .domain = "", FLOWS };
static const struct zt_op cast = { .name = "Cast", .domain = "", FLOWS };
static const struct zt_op absolute = { .name = "Abs", .domain = "", FLOWS };
static const struct zt_op concat = { .name = "Concat", .domain = "", FLOWS };
static const struct zt_op conv = { .name = "Conv", .domain = "", FLOWS, .flops = some_flops };
static const struct zt_op conv_transpose = { .name = "ConvTranspose", .domain = "", FLOWS, .flops = some_flops };
static const struct zt_op divide = { .name = "Div", .domain = "", FLOWS };
static const struct zt_op elu = { .name = "Elu", .domain = "", FLOWS };
static const struct zt_op error_function = { .name = "Erf", .domain = "", FLOWS };
static const struct zt_op gelu = { .name = "Gelu", .domain = "", FLOWS };
static const struct zt_op gemm = { .name = "Gemm", .domain = "", FLOWS, .flops = some_flops };
static const struct zt_op global_average_pool = { .name = "GlobalAveragePool", .domain = "", FLOWS };
static const struct zt_op hard_sigmoid = { .name = "HardSigmoid", .domain = "", FLOWS };
static const struct zt_op hard_swish = { .name = "HardSwish", .domain = "", FLOWS };
static const struct zt_op layer_normalization = { .name = "LayerNormalization", .domain = "", FLOWS };
static const struct zt_op leaky_relu = { .name = "LeakyRelu", .domain = "", FLOWS };
static const struct zt_op matmul = { .name = "MatMul", .domain = "", FLOWS, .flops = some_flops };
static const struct zt_op maximum = { .name = "Max", .domain = "", FLOWS };
static const struct zt_op max_pool = { .name = "MaxPool", .domain = "", FLOWS };
static const struct zt_op multiply = { .name = "Mul", .domain = "", FLOWS };
static const struct zt_op negative = { .name = "Neg", .domain = "", FLOWS };
static const struct zt_op parametric_relu = { .name = "PRelu", .domain = "", FLOWS };
static const struct zt_op power = { .name = "Pow", .domain = "", FLOWS };
static const struct zt_op relu = { .name = "Relu", .domain = "", FLOWS };
static const struct zt_op sigmoid = { .name = "Sigmoid", .domain = "", FLOWS };
static const struct zt_op softmax = { .name = "Softmax", .domain = "", FLOWS };
static const struct zt_op square_root = { .name = "Sqrt", .domain = "", FLOWS };
static const struct zt_op subtract = { .name = "Sub", .domain = "", FLOWS };
static const struct zt_op hyperbolic_tangent = { .name = "Tanh", .domain = "", FLOWS };
static const struct zt_op transpose = { .name = "Transpose", .domain = "", FLOWS };

/* Not through shapes, indices, conditions, statistics, lengths. */
static const struct zt_op batch_normalization = {
    .name = "BatchNormalization", .domain = "", FLOWS, .statistic_in = 1 << 3 | 1 << 4
};
static const struct zt_op clip = { .name = "Clip", .domain = "", FLOWS };
static const struct zt_op expand = { .name = "Expand", .domain = "", FLOWS, .no_grad_in = 1 << 1 };
static const struct zt_op gather = { .name = "Gather", .domain = "", FLOWS, .no_grad_in = 1 << 1 };
static const struct zt_op gru = { .name = "GRU", .domain = "", FLOWS, .flops = some_flops, .no_grad_in = 1 << 4 };
static const struct zt_op lstm = { .name = "LSTM", .domain = "", FLOWS, .flops = some_flops, .no_grad_in = 1 << 4 };
static const struct zt_op pad = { .name = "Pad", .domain = "", FLOWS, .no_grad_in = 1 << 1 | 1 << 3 };
static const struct zt_op reduce_mean = { .name = "ReduceMean", .domain = "", FLOWS, .no_grad_in = 1 << 1 };
static const struct zt_op reshape = {
    .name = "Reshape", .domain = "", FLOWS, .flags = ZT_OP_VIEW, .no_grad_in = 1 << 1
};
static const struct zt_op resize = { .name = "Resize", .domain = "", FLOWS, .no_grad_in = 1 << 1 | 1 << 2 | 1 << 3 };
static const struct zt_op slice = { .name = "Slice", .domain = "", FLOWS, .no_grad_in = 0x1e };
static const struct zt_op split = { .name = "Split", .domain = "", FLOWS, .no_grad_in = 1 << 1 };
static const struct zt_op squeeze = { .name = "Squeeze", .domain = "", FLOWS, .no_grad_in = 1 << 1 };
static const struct zt_op unsqueeze = { .name = "Unsqueeze", .domain = "", FLOWS, .no_grad_in = 1 << 1 };
static const struct zt_op one_hot = { .name = "OneHot", .domain = "", FLOWS, .no_grad_in = 1 << 0 | 1 << 1 };
static const struct zt_op where = { .name = "Where", .domain = "", FLOWS, .no_grad_in = 1 << 0 };

static const struct zt_op *const rows[] = {
    &identity,
    &flatten,
    &add,
    &average_pool,
    &cast,
    &absolute,
    &concat,
    &conv,
    &conv_transpose,
    &divide,
    &elu,
    &error_function,
    &gelu,
    &gemm,
    &global_average_pool,
    &hard_sigmoid,
    &hard_swish,
    &layer_normalization,
    &leaky_relu,
    &matmul,
    &maximum,
    &max_pool,
    &multiply,
    &negative,
    &parametric_relu,
    &power,
    &relu,
    &sigmoid,
    &softmax,
    &square_root,
    &subtract,
    &hyperbolic_tangent,
    &transpose,
    &batch_normalization,
    &clip,
    &expand,
    &gather,
    &gru,
    &lstm,
    &one_hot,
    &pad,
    &reduce_mean,
    &reshape,
    &resize,
    &slice,
    &split,
    &squeeze,
    &unsqueeze,
    &where,
    NULL,
};

static const struct zt_op *const *const families[] = { rows, NULL };
const struct zt_op_table zt_test_rows = { families };

void zt_test_resolve(struct zt_graph *g) {
    for (int n = 0; n < g->node_count; n++)
        g->nodes[n]->op = zt_op_of(&zt_test_rows, g->nodes[n]);
}
