/* Rewrites a model as a run does that trained it: for check_rewrite.py.
 *
 *     rewrite_model IN.onnx OUT.onnx FOLDER
 *
 * FOLDER holds payload_0.pb, payload_1.pb ...: TensorProtos with the name of an initializer and its new contents.
 * Identities of initializers become initializers, and nodes exported in training mode go back to inference form. */
#include "base/file.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/trainable/trainable.h"
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAYLOADS = 4096 };

static int read_payloads(const char *folder, struct zt_arena *arena, struct zt_onnx_payload *payloads,
                         struct zt_err *err) {
    int count = 0;
    for (; count < PAYLOADS; count++) {
        char *path = zt_path_join(folder, zt_arena_printf(arena, "payload_%d.pb", count));
        bool there = zt_file_exists(path);
        struct zt_tensor tensor;
        bool ok = there && zt_onnx_read_tensor(path, arena, &tensor, &payloads[count].name, ZT_EXIT_DATA, err);
        free(path);
        if (!ok)
            return there ? -1 : count;
        payloads[count].data = tensor.data;
    }
    return count;
}

static int training_nodes(const struct zt_graph *g, struct zt_onnx_inference *nodes) {
    int count = 0;
    for (int n = 0; n < g->node_count; n++)
        if (zt_attr_int(g->nodes[n], "training_mode", 0))
            nodes[count++] = (struct zt_onnx_inference){ g->nodes[n]->file_index, 0 };
    return count;
}

static bool rewrite(const struct zt_onnx *model, struct zt_arena *arena, const char *out, const char *folder,
                    struct zt_err *err) {
    struct zt_onnx_payload *payloads = ZT_NEW_N(arena, struct zt_onnx_payload, PAYLOADS);
    struct zt_onnx_inference *nodes = ZT_NEW_N(arena, struct zt_onnx_inference, model->graph->node_count);
    struct zt_onnx_changes changes = { .payloads = payloads, .inference_nodes = nodes };
    changes.inference_node_count = training_nodes(model->graph, nodes);
    zt_pass_split_aliases(model->graph, &zt_test_rows, model);
    const char **aliases;
    changes.alias_count = zt_trainable_aliases(model, model->graph, &aliases);
    changes.aliases = aliases;
    changes.payload_count = read_payloads(folder, arena, payloads, err);
    return changes.payload_count >= 0 && zt_onnx_write(model, out, &changes, err);
}

int main(int argc, char **argv) {
    struct zt_err err = { 0 };
    if (argc != 4)
        return 2;
    struct zt_arena *arena = zt_arena_create();
    struct zt_onnx *model = zt_onnx_read(argv[1], ZT_WEIGHTS_MAPPED, &err);
    bool ok = model && rewrite(model, arena, argv[2], argv[3], &err);
    if (!ok)
        zt_err_print(&err, stderr);
    zt_onnx_destroy(model);
    zt_arena_destroy(arena);
    return ok ? 0 : err.code;
}
