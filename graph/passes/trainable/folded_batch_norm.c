/* BatchNormalization in inference form is a scale and a shift, which exporters multiply into the layer before it. What
 * is left looks like a layer with a bias; only the names tell:
 *
 *     torch, dynamo       conv.weight, conv.weight_bias  listed in the signature without its mark; others are gone
 *     torch, TorchScript  onnx::Conv_7, onnx::Conv_8     weight and bias both, in a file where others kept their names
 *     tf2onnx             .../batchnorm/sub:0            TensorFlow's name for the shift
 *
 * A layer whose weight alone was computed (weight norm) keeps the name of its bias, and a frozen module keeps none. */
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"

#include "base/map.h"
#include "base/text.h"
#include "base/vec.h"

#include <string.h>

static const struct zt_value *initializer(const struct zt_graph *g, const struct zt_node *n, int in) {
    const struct zt_value *v = in < n->in_count && n->in[in] >= 0 ? g->values[n->in[in]] : NULL;
    return v && v->origin == ZT_FROM_INITIALIZER && v->shape.rank > 0 ? v : NULL;
}

static bool has_mark(const struct zt_value *v) {
    return v->torch_kind || v->torch_folded_from;
}

/* The bias is made up, "conv.weight_bias", or the layer's own with other values. */
static bool is_dynamo(const struct zt_value *weight, const struct zt_value *bias, const struct zt_map *listed) {
    if (!bias || has_mark(weight) || has_mark(bias) || !zt_map_get(listed, weight->name, 0))
        return false;
    size_t length = strlen(weight->name);
    bool made = strncmp(bias->name, weight->name, length) == 0 && strcmp(bias->name + length, "_bias") == 0;
    return made || zt_map_get(listed, bias->name, 0);
}

/* "onnx::Conv_124" of a Conv. */
static bool is_numbered(const char *name, const char *op_type) {
    static const char start[] = "onnx::";
    const size_t length = strlen(op_type);
    return strncmp(name, start, sizeof start - 1) == 0 && strncmp(name + sizeof start - 1, op_type, length) == 0 &&
           zt_torch_is_numbered(name + sizeof start - 1 + length, "_");
}

static bool is_torchscript(const struct zt_node *n, const struct zt_value *weight, const struct zt_value *bias) {
    return bias && weight->shape.rank > 2 && bias->shape.rank == 1 && is_numbered(weight->name, n->op_type) &&
           is_numbered(bias->name, n->op_type);
}

static bool is_tensorflow(const struct zt_value *v) {
    return v && (strstr(v->name, "/batchnorm/sub") || strstr(v->name, "/batchnorm/mul"));
}

/* Whether some float initializer still has the name that the module gave it. */
static bool has_names(const struct zt_graph *g) {
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->origin == ZT_FROM_INITIALIZER && zt_dtype_in(g->values[i]->dtype, ZT_ANY_FLOAT) &&
            strncmp(g->values[i]->name, "onnx::", 6) != 0)
            return true;
    return false;
}

/* Whether a normalization's variance, which the module keeps, is in no initializer any more. One without scale and
 * shift has no parameter that could be missing. */
static bool has_lost_statistics(const struct zt_onnx *model) {
    struct zt_torch_state *states;
    const int count = zt_torch_states(model->graph->arena, model->torch_signature, &states);
    for (int i = 0; i < count; i++)
        if (states[i].kind == ZT_TORCH_BUFFER && zt_text_ends(states[i].target, "running_var") &&
            zt_graph_find(model->graph, states[i].target) < 0)
            return true;
    return false;
}

static const char *const ways[] = {
    [ZT_NOT_FOLDED] = NULL,
    [ZT_FOLDED_DYNAMO] = "torch.onnx.export(..., dynamo=True, optimize=False)",
    [ZT_FOLDED_TORCHSCRIPT] =
        "torch.onnx.export(..., dynamo=False, do_constant_folding=False), or training=torch.onnx.TrainingMode.TRAINING",
    [ZT_FOLDED_TENSORFLOW] =
        "tf2onnx of a function that calls model(x, training=True), whose file has statistics of the batch alone",
};

const char *zt_trainable_unfold(enum zt_trainable_folding by) {
    return ways[by];
}

int zt_trainable_folds(const struct zt_onnx *model, struct zt_trainable_fold **folds) {
    const struct zt_graph *g = model->graph;
    const char **missing, **parameters;
    int count = zt_trainable_listed(model, &parameters);
    const bool gone =
        model->torch_signature && (zt_trainable_missing(model, &missing) > 0 || has_lost_statistics(model));
    bool pytorch = strncmp(model->producer, "pytorch", 7) == 0, names = has_names(g);
    struct zt_map listed = { 0 };
    ZT_VEC(struct zt_trainable_fold) list = { 0 };
    for (int i = 0; i < count; i++)
        zt_map_put(&listed, parameters[i], 1);
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const struct zt_value *weight = initializer(g, node, 1), *bias = initializer(g, node, 2);
        enum zt_trainable_folding by = ZT_NOT_FOLDED;
        if (weight && gone && is_dynamo(weight, bias, &listed))
            by = ZT_FOLDED_DYNAMO;
        else if (weight && pytorch && !model->torch_signature && names && is_torchscript(node, weight, bias))
            by = ZT_FOLDED_TORCHSCRIPT;
        else if (is_tensorflow(bias) || is_tensorflow(weight))
            by = ZT_FOLDED_TENSORFLOW;
        if (by)
            zt_vec_push(&list, (struct zt_trainable_fold){ n, node->in[1], bias ? node->in[2] : -1, by });
    }
    count = list.count;
    *folds = zt_vec_copy(model->graph->arena, &list);
    zt_vec_finish(&list);
    zt_map_finish(&listed);
    return count;
}
