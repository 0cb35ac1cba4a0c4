#include "graph/passes/trainable/constants.h"

#include "base/text.h"
#include "graph/ir/op.h"
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"

#include <math.h>
#include <string.h>

static const double beyond = 1e6; /* no weight is as large: bounds, what masks add */

enum zt_writer zt_writer_of(const struct zt_onnx *model) {
    if (model && model->torch_signature)
        return ZT_WRITER_DYNAMO;
    if (zt_torch_is_script(model))
        return ZT_WRITER_TORCHSCRIPT;
    if (zt_torch_is_stripped(model))
        return ZT_WRITER_STRIPPED;
    if (model && strncmp(model->producer, "jax2onnx", 8) == 0)
        return ZT_WRITER_JAX;
    if (model && strncmp(model->producer, "skl2onnx", 8) == 0)
        return ZT_WRITER_SKLEARN;
    return model && strncmp(model->producer, "tf2onnx", 7) == 0 ? ZT_WRITER_TENSORFLOW : ZT_WRITER_OTHER;
}

bool zt_trainable_is_tensorflow(const struct zt_onnx *model) {
    return zt_writer_of(model) == ZT_WRITER_TENSORFLOW;
}

bool zt_trainable_is_optimized(const struct zt_onnx *model) {
    for (int i = 0; i < model->opset_count; i++)
        if (strcmp(model->opsets[i].domain, "com.microsoft.nchwc") == 0)
            return zt_writer_of(model) != ZT_WRITER_OTHER;
    return false;
}

/* ---- names ---- */

bool zt_writer_names_parameter(enum zt_writer writer, const char *name) {
    return writer == ZT_WRITER_TORCHSCRIPT ? zt_torch_is_state_name(name)
                                           : writer == ZT_WRITER_TENSORFLOW && strstr(name, "ReadVariableOp");
}

/* The last part of a TensorFlow name, "scope/part_2:0", is one of its own for constants. */
static bool is_tensorflow_constant(const char *name) {
    static const char *const parts[] = { "Const", "x", "y", "zeros", "ones" };
    const char *part = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *behind = part + strlen(parts[i]);
        if (zt_text_begins(part, parts[i]) && behind[0] == '_')
            behind += 1 + strspn(behind + 1, "0123456789");
        if (zt_text_begins(part, parts[i]) && (!behind[0] || behind[0] == ':'))
            return true;
    }
    return zt_torch_is_numbered(name, "p2__") || zt_text_begins(name, "cst_") || strstr(name, "_recip:");
}

/* "/layer/Constant_2_output_0": the output of a node, which onnxruntime's optimizer turned into an initializer. */
static bool is_torchscript_constant(const char *name) {
    const char *part = strrchr(name, '/');
    if (!part || !zt_text_begins(part, "/Constant"))
        return false;
    part += strlen("/Constant");
    part += part[0] == '_' && part[1] != 'o' ? 1 + strspn(part + 1, "0123456789") : 0;
    return zt_text_begins(part, "_output_");
}

bool zt_trainable_is_singular(const struct zt_graph *g, const struct zt_value *v) {
    if (v->shape.rank != 1 || (!zt_text_ends(v->name, "_u") && !zt_text_ends(v->name, "_v")))
        return false;
    if (strstr(v->name, "parametrizations."))
        return zt_text_ends(v->name, "._u") || zt_text_ends(v->name, "._v");
    const int base = (int)strlen(v->name) - 2;
    return zt_graph_find(g, zt_arena_printf(g->arena, "%.*s_orig", base, v->name)) >= 0;
}

bool zt_trainable_is_no_parameter(const char *name) {
    return zt_torch_is_numbered(name, "eager_tmp_");
}

static bool is_paddle_constant(const char *name) {
    return zt_text_begins(name, "p2o.pd_op.full") || zt_text_begins(name, "helper.constant.") ||
           zt_torch_is_numbered(name, "const.") || zt_trainable_is_no_parameter(name);
}

/* The scale and bias that a normalization lacks, the ones of a sum over windows. */
static bool is_jax_constant(const char *name) {
    return zt_torch_is_numbered(name, "scale_c_") || zt_torch_is_numbered(name, "bias_c_") ||
           zt_torch_is_numbered(name, "reduce_window_sum_kernel_");
}

/* Whether the name is of a constant that a scaler, a principal component analysis or quantiles learned before. */
static bool is_sklearn_constant(const char *name) {
    static const char *const names[] = { "Ad_Addcst", "Di_Divcst",        "Mu_Mulcst", "Su_Subcst",
                                         "mean",      "transform_matrix", "quantiles", "references" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (zt_text_begins(name, names[i]))
            return true;
    return false;
}

static bool is_named_constant(enum zt_writer writer, const char *name) {
    if (writer == ZT_WRITER_JAX)
        return is_jax_constant(name);
    if (writer == ZT_WRITER_SKLEARN)
        return is_sklearn_constant(name);
    return writer == ZT_WRITER_TENSORFLOW
               ? is_tensorflow_constant(name)
               : is_torchscript_constant(name) || (writer == ZT_WRITER_OTHER && is_paddle_constant(name));
}

/* ---- contents ---- */

bool zt_constant_is_all(const struct zt_value *v, double x) {
    const int64_t count = zt_shape_count(&v->shape);
    for (int64_t i = 0; v->data && i < count; i++)
        if (zt_constant_at(v, i) != x)
            return false;
    return v->data && count > 0;
}

bool zt_constant_is_uniform(const struct zt_value *v) {
    const size_t bytes = zt_dtype_bytes(v->dtype);
    const int64_t count = zt_shape_count(&v->shape);
    for (int64_t i = 1; i < count; i++)
        if (memcmp((const char *)v->data + (size_t)i * bytes, v->data, bytes) != 0)
            return false;
    return true;
}

/* Nothing but infinities, NaN and zeros: what is added to hide places. A weight with one such number among others is a
 * broken one, and is refused before the first step. */
static bool is_infinite(const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    bool found = false;
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(zt_constant_at(v, i)) && zt_constant_at(v, i) != 0)
            return false;
        found = found || !isfinite(zt_constant_at(v, i));
    }
    return found;
}

static bool is_beyond(const struct zt_value *v) {
    const int64_t count = zt_shape_count(&v->shape);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(zt_constant_at(v, i)) >= beyond))
            return false;
    return count > 0;
}

/* ---- readers ---- */

static bool is_product(const struct zt_node *n) {
    return n->op && n->op->flops && !(n->op->flags & ZT_OP_SUMS);
}

/* A node that reads the value; NULL: none. */
static const struct zt_node *reader_of(const struct zt_graph *g, int value) {
    int reader = -1;
    return zt_graph_users(g, value, &reader) > 0 ? g->nodes[reader] : NULL;
}

static int place_of(const struct zt_node *n, int value) {
    for (int i = 0; i < n->in_count; i++)
        if (n->in[i] == value)
            return i;
    return -1;
}

static const char *const moves[] = { "Reshape",  "Squeeze", "Unsqueeze", "Flatten", "Transpose",
                                     "Identity", "Cast",    "Expand",    NULL };

/* Whether the value is the result of a product, also behind nodes that only move it. */
static bool comes_from_product(const struct zt_graph *g, int value) {
    for (int steps = 0; value >= 0 && g->values[value]->producer >= 0 && steps < g->node_count; steps++) {
        const struct zt_node *n = g->nodes[g->values[value]->producer];
        if (is_product(n))
            return true;
        if (!zt_node_is_any(n, moves) || n->in_count == 0)
            return false;
        value = n->in[0];
    }
    return false;
}

/* A weight or bias of a product, a parameter of a normalization, the slope of a PRelu, or what is added to a product.
 */
static bool is_part_of_layer(const struct zt_graph *g, int value) {
    static const char *const layers[] = { "BatchNormalization",
                                          "InstanceNormalization",
                                          "GroupNormalization",
                                          "LayerNormalization",
                                          "RMSNormalization",
                                          "PRelu",
                                          "Gather",
                                          NULL };
    static const char *const sums[] = { "Add", "Sum", NULL };
    const struct zt_node *n = reader_of(g, value);
    for (int steps = 0; zt_node_is_any(n, moves) && n->in[0] == value && steps < g->node_count; steps++) {
        value = n->out[0];
        n = reader_of(g, value);
    }
    if (!n || is_product(n) || zt_node_is_any(n, layers))
        return true;
    for (int i = 0; zt_node_is_any(n, sums) && i < n->in_count; i++)
        if (n->in[i] != value && comes_from_product(g, n->in[i]))
            return true;
    return false;
}

bool zt_constant_is_number(const struct zt_graph *g, const struct zt_value *v) {
    return zt_shape_count(&v->shape) == 1 && !is_part_of_layer(g, v->id);
}

bool zt_constant_is_slope(const struct zt_graph *g, const struct zt_value *v) {
    const struct zt_node *n = v->shape.rank == 0 ? reader_of(g, v->id) : NULL;
    return zt_node_is(n, "PRelu") && place_of(n, v->id) == 1;
}

/* tf2onnx's name for what it computed from constants alone, and of shifts of normalizations; biases keep theirs. */
static bool is_folded_number(const struct zt_graph *g, const struct zt_value *v) {
    return zt_constant_is_number(g, v) ||
           (zt_shape_count(&v->shape) == 1 && zt_torch_is_numbered(v->name, "const_fold_opt__"));
}

/* The values [off, on] of OneHot. */
static bool is_one_hot_values(const struct zt_graph *g, const struct zt_value *v) {
    const struct zt_node *n = zt_shape_count(&v->shape) == 2 ? reader_of(g, v->id) : NULL;
    return zt_node_is(n, "OneHot") && place_of(n, v->id) == 2;
}

static bool is_bound_of_clip(const struct zt_graph *g, const struct zt_value *v) {
    const struct zt_node *n = reader_of(g, v->id);
    return zt_node_is(n, "Clip") && place_of(n, v->id) > 0;
}

/* Zeros from which a recurrent node starts. */
static bool is_zero_state(const struct zt_graph *g, const struct zt_value *v) {
    static const char *const recurrent[] = { "LSTM", "GRU", "RNN", NULL };
    const struct zt_node *n = zt_constant_is_all(v, 0) ? reader_of(g, v->id) : NULL;
    return zt_node_is_any(n, recurrent) && place_of(n, v->id) >= 5;
}

/* Zeros that a branch of an If hands out (an empty bag of nn.EmbeddingBag). */
static bool is_zeros_of_branch(const struct zt_graph *g, const struct zt_value *v) {
    const struct zt_node *n = zt_constant_is_all(v, 0) ? reader_of(g, v->id) : NULL;
    return n && n->op && n->op->expand && !n->op->infer;
}

bool zt_constant_is_window_sum(const struct zt_graph *g, const struct zt_value *v) {
    if (v->shape.rank < 3 || !v->data || zt_constant_at(v, 0) == 0 || !zt_constant_is_uniform(v))
        return false;
    const struct zt_node *n = reader_of(g, v->id);
    return n && is_product(n) && place_of(n, v->id) == 1;
}

const char *zt_constant_reason(const struct zt_graph *g, const struct zt_value *v, enum zt_writer writer) {
    const bool numbers = v->shape.rank > 0; /* scalars have a reason of their own */
    if (is_one_hot_values(g, v))
        return "the values of a OneHot";
    if (v->data && is_infinite(v))
        return "nothing but infinities, NaN and zeros";
    if (v->data && is_beyond(v))
        return "numbers too large for weights";
    if (writer == ZT_WRITER_TORCHSCRIPT && zt_trainable_is_singular(g, v))
        return "a singular vector of spectral_norm, a buffer in PyTorch";
    if (zt_writer_names_parameter(writer, v->name))
        return NULL;
    if (numbers && is_bound_of_clip(g, v))
        return "a bound of a Clip";
    if (is_named_constant(writer, v->name))
        return "named as a constant by the exporter";
    if (is_zero_state(g, v))
        return "zeros from which a recurrent node starts";
    const char *statistic = zt_trainable_statistic(g, v);
    if (statistic)
        return statistic;
    if (writer == ZT_WRITER_DYNAMO && numbers && is_zeros_of_branch(g, v))
        return "zeros that a branch hands out";
    return (writer == ZT_WRITER_TENSORFLOW || writer == ZT_WRITER_DYNAMO) && numbers && is_folded_number(g, v)
               ? "one number: epsilon, factor or exponent"
               : NULL;
}

bool zt_trainable_is_held(const struct zt_node *node) {
    const struct zt_attr *a = node->in_count == 0 && node->attr_count == 1 ? &node->attr[0] : NULL;
    return a && a->type == ZT_ATTR_TENSOR && zt_dtype_in(a->tensor.dtype, ZT_ANY_FLOAT) && a->tensor.shape.rank > 0;
}
