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
        const struct zt_node *node = &g->nodes[n];
        const struct zt_op *op = zt_op_find(&zt_ops, node->domain, node->op_type, node->opset);
        const struct zt_attr *mode = zt_node_attr(node, "training_mode");
        if (op && op->train && mode && mode->i)
            file_index[count++] = node->file_index;
    }
    return count;
}

bool zt_export_model(const struct zt_session *s, const char *folder, const struct zt_onnx_payload *payloads,
                     const int64_t *elements, int count, uint64_t *hash, struct zt_err *err) {
    struct zt_graph *g = zt_graph_clone(s->model->graph);
    int *nodes = zt_malloc(((size_t)g->node_count + 1) * sizeof *nodes);
    struct zt_onnx_changes changes = { .payloads = payloads, .payload_count = count, .inference_nodes = nodes };
    changes.inference_node_count = list_training_nodes(g, nodes);
    zt_pass_split_aliases(g, &zt_ops);
    const char **aliases = NULL;
    changes.alias_count = zt_trainable_aliases(s->model, g, &aliases);
    changes.aliases = aliases;
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
