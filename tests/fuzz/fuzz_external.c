// Hostile bytes as a model that lies beside a file with external data, a link, and a folder: every tensor is read, and
// the model is written again.
#include "base/arena.h"
#include "base/err.h"
#include "fuzz.h"
#include "graph/onnx/onnx.h"

#include <stdlib.h>
#include <unistd.h>

enum { WEIGHT_BYTES = 4096 };

static void put_neighbours(void) {
    static bool there;
    char weights[WEIGHT_BYTES];
    if (there)
        return;
    there = true;
    for (int i = 0; i < WEIGHT_BYTES; i++)
        weights[i] = (char)(i / 4);
    fuzz_put("weights.bin", weights, sizeof weights);
    fuzz_make("below");
    fuzz_put("below/w.bin", weights, 16);
    fuzz_promise(symlink("weights.bin", "link.bin") == 0);
}

/* Every byte of every tensor. */
static uint64_t read_all(const struct zt_graph *g) {
    uint64_t sum = 0;
    for (int v = 0; v < g->value_count; v++) {
        const struct zt_value *value = g->values[v];
        const uint8_t *at = value->origin == ZT_FROM_INITIALIZER ? value->data : NULL;
        size_t bytes = at ? (size_t)zt_shape_count(&value->shape) * zt_dtype_bytes(value->dtype) : 0;
        for (size_t i = 0; i < bytes; i++)
            sum += at[i];
    }
    return sum;
}

const size_t fuzz_choice_bytes = 0;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct zt_err err = { 0 };
    struct zt_onnx_changes none = { 0 };
    fuzz_enter();
    fuzz_put("model.onnx", data, size);
    put_neighbours();
    struct zt_onnx *model = zt_onnx_read("model.onnx", ZT_WEIGHTS_MAPPED, &err);
    fuzz_promise(model || err.count > 0);
    if (model) {
        uint64_t sum = read_all(model->graph);
        zt_onnx_checksum(model);
        if (zt_onnx_write(model, "again.onnx", &none, &err)) {
            struct zt_onnx *again = zt_onnx_read("again.onnx", ZT_WEIGHTS_MAPPED, &err);
            fuzz_promise(again && read_all(again->graph) == sum);
            zt_onnx_destroy(again);
        }
    }
    zt_onnx_destroy(model);
    return 0;
}
