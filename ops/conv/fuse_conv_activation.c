/* An activation behind a convolution becomes part of it:
 *
 *     ztrain.ConvActivation(x, w[, b]) -> y[, z]      z = Conv(x, w, b), y = f(z)
 *
 * f is the ONNX operator that `activation` names; the node has its attributes, and Clip's bounds as attributes. z is an
 * output where another node reads it: the gradients of most activations read z. The gradients of Sigmoid, Tanh and
 * HardSigmoid read y instead, and so does LeakyRelu's where its slope is positive, because it only needs the sign; z is
 * then never written. ReLU has a row of its own (relu.c). */
#include "graph/passes/fusion/fuse.h"
#include "graph/passes/fusion/pattern.h"
#include "ops/conv/kernels.h"

#include <string.h>

extern const struct zt_op zt_op_conv;

static const char *const activations[] = { "Celu",      "Clip",      "Elu",   "Gelu", "HardSigmoid",
                                           "HardSwish", "LeakyRelu", "Mish",  "Selu", "Sigmoid",
                                           "Softplus",  "Softsign",  "Swish", "Tanh", "ThresholdedRelu" };

static const struct zt_op *row_of(const struct zt_op_table *table, const char *name) {
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcmp(activations[i], name) == 0)
            return zt_op_find(table, "", name, ZT_OPSET);
    return NULL;
}

/* ---- the row ---- */

static const struct zt_attr_spec attrs[] = {
    { "activation", ZT_ATTR_STRING, true },
    { "alpha", ZT_ATTR_FLOAT },
    { "approximate", ZT_ATTR_STRING },
    { "auto_pad", ZT_ATTR_STRING },
    { "beta", ZT_ATTR_FLOAT },
    { "dilations", ZT_ATTR_INTS },
    { "gamma", ZT_ATTR_FLOAT },
    { "group", ZT_ATTR_INT },
    { "kernel_shape", ZT_ATTR_INTS },
    { "max", ZT_ATTR_FLOAT },
    { "min", ZT_ATTR_FLOAT },
    { "pads", ZT_ATTR_INTS },
    { "strides", ZT_ATTR_INTS },
    { 0 },
};

static bool conv_activation_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const char *name = zt_attr_text(g->nodes[node], "activation", "");
    if (!row_of(g->table, name))
        return zt_node_fail(g, node, err, "attribute \"activation\" is \"%s\", which is none", name);
    if (!zt_op_conv.infer(g, node, err))
        return false;
    zt_set_out(g, node, 1, zt_out(g, node, 0)->dtype, &zt_out(g, node, 0)->shape);
    return true;
}

static double conv_activation_flops(const struct zt_graph *g, int node) {
    return zt_op_conv.flops(g, node);
}

static bool conv_activation_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_op *row = row_of(call->graph->table, zt_attr_text(call->node, "activation", ""));
    const struct zt_view *z = &call->out[call->out_count > 1 && call->out[1].data];
    struct zt_node f = *call->node; /* with the attributes of both */
    struct zt_call part = *call;
    f.op = row;
    part.node = &f;
    return zt_fuse_run(call, &zt_op_conv, &(struct zt_fused_call){ call->in, call->in_count, z, 1 }, err) &&
           zt_fuse_run(&part, row, &(struct zt_fused_call){ z, 1, call->out, 1 }, err);
}

const struct zt_op zt_op_conv_activation = {
    .name = "ConvActivation",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = 3,
    .min_out = 1,
    .max_out = 2,
    .flags = ZT_OP_HALF | ZT_OP_WINDOWS,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1 | 1 << 2,
    .attrs = attrs,
    .infer = conv_activation_infer,
    .flops = conv_activation_flops,
    .kernel = { [ZT_REF] = { .run = conv_activation_ref },
                [ZT_CPU] = ZT_IF_DNNL_WITH(zt_conv_cpu, .share = zt_conv_cpu_share) },
};

/* ---- the pattern ---- */

/* Clip's bounds that are inputs, as attributes; false where they are not known before running. */
static bool take_bounds(struct zt_graph *g, const struct zt_node *f, struct zt_attr *bound, int *count) {
    static const char *const names[2] = { "min", "max" };
    *count = 0;
    for (int i = 1; i < f->in_count; i++) {
        double number;
        if (f->in[i] < 0)
            continue;
        if (!zt_pattern_constant(g, f->in[i], &number))
            return false;
        bound[(*count)++] = (struct zt_attr){ .name = names[i - 1], .type = ZT_ATTR_FLOAT, .f = (float)number };
    }
    return true;
}

/* Makes LeakyReluGrad read y if it is the only other reader of z. */
static void read_result(struct zt_graph *g, const struct zt_op_table *table, const struct zt_node *f,
                        struct zt_err *err) {
    int reader;
    if (strcmp(f->op_type, "LeakyRelu") != 0 || !(zt_attr_float(f, "alpha", 0.01F) > 0) ||
        zt_graph_users(g, f->in[0], &reader) != 1 || strcmp(g->nodes[reader]->op_type, "LeakyReluGrad") != 0 ||
        g->nodes[reader]->in[1] != f->in[0])
        return;
    const struct zt_node grad = *g->nodes[reader];
    zt_fuse_replace(g, table, reader,
                    &(struct zt_fused_node){ grad.op_type, (const int[]){ grad.in[0], f->out[0] }, 2, NULL, 0, &grad },
                    err);
}

static bool fuse(struct zt_graph *g, const struct zt_op_table *table, int node, struct zt_err *err) {
    const struct zt_node f = *g->nodes[node];
    struct zt_attr bound[2];
    int bounds,
        from = f.op && !f.op->domain[0] && row_of(table, f.op_type) ? zt_fuse_producer(g, node, 0, "Conv", false) : -1;
    if (from < 0 || !zt_op_takes(g, from, ZT_CPU) || !take_bounds(g, &f, bound, &bounds))
        return false;
    const struct zt_node conv = *g->nodes[from];
    const int z = conv.out[0];
    g->nodes[from]->dead = g->nodes[node]->dead = true;
    read_result(g, table, &f, err);
    const bool is_read = zt_graph_users(g, z, NULL) > 0 || zt_graph_is_output(g, z);
    const int made = zt_fuse_add(g, &f,
                                 &(struct zt_node_spec){ f.name, "ConvActivation", "ztrain", 1, conv.in, conv.in_count,
                                                         (const int[]){ f.out[0], z }, is_read ? 2 : 1 });
    for (int i = 0; i < conv.attr_count; i++)
        zt_node_set_attr(g, made, &conv.attr[i]);
    for (int i = 0; i < f.attr_count; i++)
        zt_node_set_attr(g, made, &f.attr[i]);
    for (int i = 0; i < bounds; i++)
        zt_node_set_attr(g, made, &bound[i]);
    zt_node_set_text(g, made, "activation", f.op_type);
    for (int i = 0; i < g->nodes[made]->out_count; i++)
        g->values[g->nodes[made]->out[i]]->producer = made;
    return !err->count && zt_fuse_settle(g, table, made, err);
}

const struct zt_pattern zt_pattern_conv_activation = { "conv_activation", 1 << ZT_CPU, fuse };
