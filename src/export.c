/* Writing the trained model, and its hash. */
#include "train.h"

#include "base/file.h"
#include "base/map.h"
#include "graph/trainable.h"

#include <stdlib.h>
#include <string.h>

/* Nodes that were exported in training mode go back to inference form: those whose row has a training form and that
 * carry the attribute which asks for it. */
static int list_training_nodes(const struct zt_graph *g, int *file_index) {
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        const struct zt_op *op = zt_op_find(&zt_ops, node->domain, node->op_type, node->opset);
        const struct zt_attr *mode = zt_node_attr(node, "training_mode");
        if (op && op->train && mode && mode->i)
            file_index[count++] = node->file_index;
    }
    return count;
}

/* Contents of an initializer in the type it is stored in: halves round to the nearest, ties to even. */
static const void *as_stored(struct zt_graph *g, const struct zt_value *v, const float *from) {
    int64_t count = zt_shape_count(&v->shape);
    if (v->dtype == ZT_FLOAT)
        return from;
    void *to = zt_arena_alloc(g->arena, (size_t)count * zt_dtype_bytes(v->dtype));
    for (int64_t i = 0; i < count; i++)
        zt_store_double(v->dtype, to, i, (double)from[i]);
    return to;
}

/* Contents of an initializer that is tied to one with contents `from`, stored in the same type. */
static const void *as_tied(struct zt_graph *g, const struct zt_value *v, const struct zt_tie *tie, const char *from) {
    int64_t rows = v->shape.dim[0], columns = v->shape.dim[1];
    size_t bytes = zt_dtype_bytes(v->dtype);
    if (!tie->transposed)
        return from;
    char *to = zt_arena_alloc(g->arena, (size_t)(rows * columns) * bytes);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            memcpy(to + (size_t)(r * columns + c) * bytes, from + (size_t)(c * rows + r) * bytes, bytes);
    return to;
}

/* What was trained, and behind it what is tied to that. A parameter that does not train keeps its initial values, and
 * so those tied to it get them. */
static struct zt_onnx_payload *all_payloads(const struct zt_job *job, struct zt_graph *g,
                                            const struct zt_onnx_payload *trained, int *count) {
    struct zt_onnx_payload *all = ZT_NEW_N(g->arena, struct zt_onnx_payload, *count + job->tie_count + 1);
    struct zt_map by_name = { 0 };
    for (int i = 0; i < *count; i++) {
        const struct zt_value *v = g->values[zt_graph_find(g, trained[i].name)];
        all[i] = (struct zt_onnx_payload){ v->name, as_stored(g, v, trained[i].data) };
        zt_map_put(&by_name, v->name, i);
    }
    for (int i = 0; i < job->tie_count; i++) {
        const struct zt_tie *tie = &job->ties[i];
        const struct zt_value *v = g->values[zt_graph_find(g, tie->name)];
        int at = zt_map_get(&by_name, tie->to, -1);
        const void *from = at >= 0 ? all[at].data : g->values[zt_graph_find(g, tie->to)]->data;
        all[(*count)++] = (struct zt_onnx_payload){ v->name, as_tied(g, v, tie, from) };
    }
    zt_map_finish(&by_name);
    return all;
}

bool zt_export_model(const struct zt_session *s, const char *folder, const struct zt_onnx_payload *payloads,
                     const int64_t *elements, int count, uint64_t *hash, struct zt_err *err) {
    struct zt_graph *g = zt_graph_clone(s->model->graph);
    int *nodes = zt_malloc(((size_t)g->node_count + 1) * sizeof *nodes);
    struct zt_onnx_changes changes = { .payload_count = count, .inference_nodes = nodes };
    changes.inference_node_count = list_training_nodes(g, nodes);
    zt_pass_split_aliases(g, &zt_ops);
    const char **aliases = NULL;
    changes.alias_count = zt_trainable_aliases(s->model, g, &aliases);
    changes.aliases = aliases;
    changes.payloads = all_payloads(s->job, g, payloads, &changes.payload_count);
    *hash = ZT_HASH_START;
    for (int i = 0; i < count; i++) {
        *hash = zt_hash(*hash, payloads[i].name, strlen(payloads[i].name) + 1);
        *hash = zt_hash(*hash, payloads[i].data, (size_t)elements[i] * sizeof(float));
    }
    char *path = zt_path_join(folder, "model.onnx");
    bool ok = zt_onnx_write(s->model, path, &changes, err);
    free(path);
    free(nodes);
    zt_graph_destroy(g);
    return ok;
}
