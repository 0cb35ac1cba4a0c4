// Hostile bytes as a model and as a tensor; what passes is judged, written and read again.
// tests/graph/test_onnx_fuzz.c runs the same entry on mutated files in every build.
#include "base/arena.h"
#include "fuzz.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/trainable/trainable.h"

#include <stdio.h>
#include <stdlib.h>

static void judge_and_write(struct zt_onnx *model) {
    struct zt_err err = { 0 };
    const char **names;
    struct zt_trainable_pair *pairs;
    char path[300];
    snprintf(path, sizeof path, "%s/again.onnx", fuzz_folder());
    zt_pass_trainable(model->graph, model, -1);
    zt_trainable_missing(model, &names);
    zt_trainable_pairs(model->graph, &pairs);
    struct zt_onnx_payload *payloads = calloc((size_t)model->graph->value_count + 1, sizeof *payloads);
    struct zt_onnx_changes changes = { .payloads = payloads,
                                       .inference_nodes = (struct zt_onnx_inference[]){ { 0 } },
                                       .inference_node_count = 1 };
    for (int v = 0; v < model->graph->value_count; v++)
        if (model->graph->values[v]->origin == ZT_FROM_INITIALIZER && model->graph->values[v]->data)
            payloads[changes.payload_count++] =
                (struct zt_onnx_payload){ model->graph->values[v]->name, model->graph->values[v]->data };
    if (zt_onnx_write(model, path, &changes, &err)) {
        struct zt_onnx *again = zt_onnx_read(path, ZT_WEIGHTS_MAPPED, &err);
        zt_onnx_destroy(again);
    }
    free(payloads);
}

const size_t fuzz_choice_bytes = 0;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    const char *path = fuzz_file(data, size);
    struct zt_onnx *model = zt_onnx_read(path, ZT_WEIGHTS_MAPPED, &err);
    if (model)
        judge_and_write(model);
    zt_onnx_destroy(model);
    struct zt_arena *arena = zt_arena_create();
    struct zt_tensor tensor;
    zt_onnx_read_tensor(path, arena, &tensor, NULL, ZT_EXIT_DATA, &err);
    for (int kind = 0; kind < 3; kind++) {
        struct zt_onnx_list list = { .kind = kind ? ZT_OPTIONAL : ZT_SEQUENCE, .of_sequence = kind == 2 };
        struct zt_err list_err = { 0 };
        zt_onnx_read_list(path, arena, &list, ZT_EXIT_DATA, &list_err);
    }
    zt_arena_destroy(arena);
    return 0;
}
