/* Buffers and fixed tables that look like parameters. PyTorch's TorchScript exporter and other frameworks' do not tell
 * them apart, and dynamo marks a parameter with requires_grad=False as any other. */
#include "graph/ir/op.h"
#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/trainable.h"

#include <math.h>
#include <string.h>

/* ---- zeros behind the last product ---- */

/* A bias has one axis; a buffer that masks or shifts the output has leading ones, and nothing but zeros. */
static bool is_output_shift(const struct zt_graph *g, const struct zt_value *v) {
    int reader = -1;
    const int64_t count = zt_shape_count(&v->shape);
    if (v->shape.rank < 2 || v->shape.dim[v->shape.rank - 1] != count || zt_graph_users(g, v->id, &reader) != 1 ||
        !zt_node_is(g->nodes[reader], "Add"))
        return false;
    return zt_graph_is_output(g, g->nodes[reader]->out[0]) && zt_constant_is_all(v, 0);
}

/* ---- zeros among parameters ---- */

/* Zeros that are joined with other initializers alone: the keys' bias of an attention that has none. */
static bool is_joined_zeros(const struct zt_graph *g, const struct zt_value *v) {
    int reader = -1;
    if (zt_graph_users(g, v->id, &reader) != 1 || !zt_node_is(g->nodes[reader], "Concat"))
        return false;
    const struct zt_node *n = g->nodes[reader];
    for (int i = 0; i < n->in_count; i++)
        if (n->in[i] < 0 || g->values[n->in[i]]->origin != ZT_FROM_INITIALIZER)
            return false;
    return zt_constant_is_all(v, 0);
}

/* ---- what scales an input ---- */

static bool is_input(const struct zt_graph *g, int value) {
    return value >= 0 && g->values[value]->origin == ZT_FROM_INPUT;
}

static const struct zt_node *producer_of(const struct zt_graph *g, int value) {
    const int producer = value >= 0 ? g->values[value]->producer : -1;
    return producer >= 0 ? g->nodes[producer] : NULL;
}

/* The same of what is cast from an input. */
static bool is_cast_input(const struct zt_graph *g, int value) {
    const struct zt_node *n = producer_of(g, value);
    return is_input(g, value) || (zt_node_is(n, "Cast") && is_input(g, n->in[0]));
}

/* Whether the value is an input, or an input and a number that is added, subtracted or multiplied. */
static bool is_scaled_input(const struct zt_graph *g, int value) {
    const struct zt_node *n = producer_of(g, value);
    return is_cast_input(g, value) || ((zt_node_is(n, "Sub") || zt_node_is(n, "Mul")) && is_cast_input(g, n->in[0]));
}

/* (input - mean) / std, or in other writers' files input * factor + offset, before anything else is computed. */
static bool is_input_scale(const struct zt_graph *g, const struct zt_value *v, enum zt_writer writer) {
    int reader = -1;
    if (zt_graph_users(g, v->id, &reader) != 1)
        return false;
    const struct zt_node *n = g->nodes[reader];
    const bool factor = writer != ZT_WRITER_TORCHSCRIPT && (zt_node_is(n, "Mul") || zt_node_is(n, "Add"));
    return (factor || zt_node_is(n, "Sub") || zt_node_is(n, "Div")) && n->in[1] == v->id &&
           is_scaled_input(g, n->in[0]);
}

/* ---- frequencies ---- */

static bool is_read_by(const struct zt_graph *g, int value, const char *op_type) {
    for (int n = 0; n < g->node_count; n++)
        if (zt_node_is(g->nodes[n], op_type) && g->nodes[n]->in[0] == value)
            return true;
    return false;
}

/* Fourier features: the sines and the cosines of an input times numbers, which are drawn once and stay, or are learned.
 * A constant may scale the product, as 2 pi does. */
static bool is_frequencies(const struct zt_graph *g, const struct zt_value *v) {
    enum { SCALES = 4 };
    static const char *const products[] = { "Mul", "MatMul", "Gemm", NULL };
    int value = v->id, reader = -1;
    for (int steps = 0; steps < SCALES && zt_graph_users(g, value, &reader) == 1; steps++) {
        const struct zt_node *n = g->nodes[reader];
        if (!zt_node_is_any(n, steps ? (const char *const[]){ "Mul", NULL } : products))
            return false;
        value = n->out[0];
    }
    return zt_graph_users(g, value, NULL) == 2 && is_read_by(g, value, "Sin") && is_read_by(g, value, "Cos");
}

/* ---- the scale of an attention ---- */

/* Whether a softmax reads the value, with a product before it, a mask or the scores of the layer before added, and
 * `products` matrix products on the way. */
static bool leads_to_softmax(const struct zt_graph *g, int value, int products) {
    enum { NODES = 4 };
    static const char *const between[] = { "Add", "Where", "Reshape", "Transpose", "Cast", "MatMul", NULL };
    int reader = -1;
    for (int steps = 0; steps < NODES && !is_read_by(g, value, "Softmax"); steps++) {
        if (zt_graph_users(g, value, &reader) != 1 || !zt_node_is_any(g->nodes[reader], between))
            return false;
        products -= zt_node_is(g->nodes[reader], "MatMul");
        value = g->nodes[reader]->out[0];
    }
    return products == 0 && is_read_by(g, value, "Softmax");
}

/* Whether vectors of this size, the heads of an attention, are whole parts of an axis of a matrix that trains. */
static bool may_be_head(const struct zt_graph *g, int64_t size) {
    for (int i = 0; i < g->value_count; i++) {
        const struct zt_value *v = g->values[i];
        for (int k = 0; k < v->shape.rank && v->origin == ZT_FROM_INITIALIZER && v->trainable && v->shape.rank > 1; k++)
            if (v->shape.dim[k] > 0 && v->shape.dim[k] % size == 0)
                return true;
    }
    return false;
}

/* One over the square root of the size of a head, in the scores of an attention or their queries: a number that starts
 * there is kept as a parameter of requires_grad=False more often than it is learned. Another one, as 0.1 is where no
 * axis has hundreds, is a temperature. */
static bool is_attention_scale(const struct zt_graph *g, const struct zt_value *v) {
    enum { SIZE = 4096 }; /* of a head; where numbers are small, every float is near such a root */
    int reader = -1;
    if (zt_shape_count(&v->shape) != 1 || zt_graph_users(g, v->id, &reader) != 1 ||
        !zt_node_is(g->nodes[reader], "Mul"))
        return false;
    const struct zt_node *n = g->nodes[reader];
    const double scale = zt_constant_at(v, 0), size = round(1 / (scale * scale));
    const bool scores = zt_node_is(producer_of(g, n->in[n->in[0] == v->id]), "MatMul");
    return scale > 0 && size > 1 && size <= SIZE && (float)scale == (float)(1 / sqrt(size)) &&
           may_be_head(g, (int64_t)size) && leads_to_softmax(g, n->out[0], !scores);
}

/* ---- names ---- */

/* Whether the last part of a TensorFlow name, "scope/part_2:0", is one of `parts`. */
static bool ends_in(const char *name, const char *const *parts) {
    const char *part = strrchr(name, '/');
    for (; part && *parts; parts++) {
        const size_t length = strlen(*parts);
        const char *behind = part + 1 + length;
        if (strncmp(part + 1, *parts, length) != 0)
            continue;
        if (behind[0] == '_' && strspn(behind + 1, "0123456789"))
            behind += 1 + strspn(behind + 1, "0123456789");
        if (behind[0] == ':')
            return true;
    }
    return false;
}

/* A scalar is a constant as often, so only operations that no constant has count for it. The scale and shift of a
 * folded normalization are reported elsewhere. Operations that only move elements, as "Reshape", do not count. */
bool zt_trainable_is_computed(const struct zt_onnx *model, const struct zt_value *v) {
    static const char *const any[] = { "truediv",  "l2_normalize", "Exp",  "Sqrt",    "Rsqrt", "Square",
                                       "Softplus", "Sigmoid",      "Tanh", "Softmax", "div",   NULL };
    static const char *const of_tensors[] = { "mul",     "Mul",     "sub", "Sub",  "Pow",    "pow",     "MatMul",
                                              "Relu",    "Abs",     "Sin", "Cos",  "Log",    "Select",  "SelectV2",
                                              "Maximum", "Minimum", "Sum", "Mean", "Cumsum", "RealDiv", NULL };
    static const char *const of_matrices[] = { "add", "Add", "BiasAdd", "MatrixBandPart", NULL };
    if (zt_writer_of(model) != ZT_WRITER_TENSORFLOW || strstr(v->name, "/batchnorm/"))
        return false;
    return ends_in(v->name, any) || (v->shape.rank > 0 && ends_in(v->name, of_tensors)) ||
           (v->shape.rank > 1 && ends_in(v->name, of_matrices));
}

/* ---- what the file shares or adds ---- */

/* One number everywhere, or zeros and ones: as Keras starts biases and scales. */
static bool is_start(const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    bool bits = true;
    for (int64_t i = 0; i < count && bits; i++) {
        const double x = zt_constant_at(v, i);
        bits = x == 0 || x == 1;
    }
    return count > 1 && (bits || zt_constant_is_uniform(v));
}

/* tf2onnx merges equal constants: the first values of several layers become one. */
static bool is_shared_start(const struct zt_graph *g, const struct zt_value *v) {
    return v->shape.rank > 0 && zt_graph_users(g, v->id, NULL) > 1 && is_start(v);
}

/* The B of an LSTM that has no bias. */
static bool is_added_bias(const struct zt_graph *g, const struct zt_value *v) {
    int reader = -1;
    return zt_constant_is_all(v, 0) && zt_graph_users(g, v->id, &reader) == 1 && zt_node_is(g->nodes[reader], "LSTM") &&
           g->nodes[reader]->in_count > 3 && g->nodes[reader]->in[3] == v->id;
}

static const char *tensorflow_doubt(const struct zt_graph *g, const struct zt_value *v, const struct zt_onnx *model) {
    if (zt_trainable_is_computed(model, v))
        return "computed from variables by the exporter";
    if (is_shared_start(g, v))
        return "one for several layers whose variables were equal";
    return is_added_bias(g, v) ? "zeros, as of an LSTM without bias" : NULL;
}

/* The reason of a file that bears no marks. */
static const char *doubt_of(const struct zt_graph *g, const struct zt_value *v, const struct zt_onnx *model) {
    const enum zt_writer writer = zt_writer_of(model);
    const bool named = zt_writer_names_parameter(writer, v->name);
    const char *own = writer == ZT_WRITER_TENSORFLOW ? tensorflow_doubt(g, v, model) : NULL;
    if (own || (named && writer == ZT_WRITER_TENSORFLOW))
        return own;
    if (is_output_shift(g, v))
        return "zeros added to the output";
    if (is_joined_zeros(g, v))
        return "zeros joined with parameters";
    const char *statistic = zt_trainable_statistic(g, v); /* TorchScript's has the name of a parameter */
    if (statistic)
        return statistic;
    if (is_input_scale(g, v, writer))
        return "scales an input";
    if (writer == ZT_WRITER_TORCHSCRIPT && zt_trainable_is_decimals(v))
        return "decimals of up to three digits";
    if (named) /* PyTorch's buffers have names like its parameters */
        return NULL;
    if (zt_constant_is_window_sum(g, v))
        return "one number in every place of a kernel";
    return zt_constant_is_number(g, v) ? "one number" : NULL;
}

const char *zt_trainable_doubt(const struct zt_graph *g, const struct zt_value *v, const struct zt_onnx *model) {
    const enum zt_writer writer = zt_writer_of(model);
    if (!v->data || !v->trainable)
        return NULL;
    if (zt_trainable_is_adapted(g, v))
        return "beside a product of low rank, as LoRA has it";
    if (is_frequencies(g, v))
        return "frequencies of sines and cosines";
    if (is_attention_scale(g, v))
        return "an attention's scale of 1 / sqrt(n)";
    if (writer == ZT_WRITER_DYNAMO && zt_trainable_is_unscoped(model, g, v))
        return "read outside of its module, as in torch.no_grad()";
    const char *table = zt_trainable_table(v, writer == ZT_WRITER_DYNAMO);
    return table || writer == ZT_WRITER_DYNAMO ? table : doubt_of(g, v, model);
}
