// Hostile bytes as the model of two steps of training, with a checkpoint at each. The first byte chooses how.
#include "base/err.h"
#include "data/npz.h"
#include "fuzz.h"
#include "graph/onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4, MOST_ARRAYS = 8, WORDS = 12 };

static const char config[] =
    "{\"train_batch_size\": 4, \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.01}}, "
    "\"gradient_clipping\": 1,"
    " \"ztrain\": {\"steps\": 2, \"data\": {\"format\": \"npz\", \"path\": \"data.npz\"},"
    " \"on_non_finite\": \"skip\", \"checkpoint\": {\"every_steps\": 1, \"keep\": 1}}}";

#define SET         "--set"
#define TWO_THREADS "--ranks", "2", SET, "ztrain.parallel.communicator=thread"
static char *const ways[][WORDS] = {
    { SET, "ztrain.loss={\"type\": \"cross_entropy\"}" },
    { SET, "ztrain.loss={\"type\": \"output\"}" },
    { SET, "ztrain.loss={\"type\": \"mse\"}" },
    { SET, "ztrain.loss={\"type\": \"bce_with_logits\"}" },
    { SET, "bf16.enabled=true", SET, "ztrain.batch_norm=frozen" },
    { SET, "optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 0.1, \"momentum\": 0.9}}" },
    { SET, "train_micro_batch_size_per_gpu=1", SET, "ztrain.recompute=[\"*\"]" },
    { TWO_THREADS, SET, "zero_optimization.stage=2" },
    { TWO_THREADS, SET, "zero_optimization.stage=3" },
    { TWO_THREADS, SET, "pipeline.stages=2", SET, "train_micro_batch_size_per_gpu=1" },
    { TWO_THREADS, SET, "ztrain.parallel.mode=dp", SET, "ztrain.loss={\"type\": \"output\"}" },
};
enum { WAYS = sizeof ways / sizeof *ways };

/* An array for every graph input, and a target: classes, or as the first output. */
static void put_data(const struct zt_graph *g, bool classes) {
    static int64_t class[SAMPLES] = { 0, 1, 0, 1 };
    struct zt_npz_array arrays[MOST_ARRAYS + 1];
    struct zt_err err = { 0 };
    int count = 0;
    for (int i = 0; i <= g->input_count && i < MOST_ARRAYS; i++) {
        const bool target = i == g->input_count;
        const struct zt_value *v = !target           ? g->values[g->inputs[i]]
                                   : g->output_count ? g->values[g->outputs[0]]
                                                     : NULL;
        struct zt_tensor t = { ZT_INT64, { 1, { SAMPLES } }, class };
        if (!(target && classes) && !(v && fuzz_tensor(v, SAMPLES, &t)))
            continue;
        arrays[count++] = (struct zt_npz_array){ .name = target ? "target" : (char *)v->name,
                                                 .dtype = t.dtype,
                                                 .shape = t.shape,
                                                 .data = (void *)t.data,
                                                 .bytes = (size_t)zt_shape_count(&t.shape) * zt_dtype_bytes(t.dtype) };
    }
    zt_npz_write("data.npz", arrays, count, &err); /* not of names that no zip takes */
    for (int i = 0; i < count; i++)
        if (arrays[i].data != class)
            free(arrays[i].data);
}

static void train(const char *const *first, char *const way[WORDS]) {
    char *argv[32];
    int n = 0;
    while (first[n]) {
        argv[n] = (char *)first[n];
        n++;
    }
    memcpy(argv + n, way, WORDS * sizeof *argv); /* ends with NULL */
    fuzz_run(argv, "out");
}

const size_t fuzz_choice_bytes = 1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const words[] = { "ztrain",    "--model", "model.onnx", "--config", "config.json",
                                         "--threads", "1",       "--device",   "cpu",      "--quiet",
                                         "--output",  "out",     NULL };
    struct zt_err err = { 0 };
    if (size == 0)
        return 0;
    const int way = data[0] % WAYS;
    fuzz_enter();
    fuzz_put("config.json", config, sizeof config - 1);
    fuzz_put("model.onnx", data + 1, size - 1);
    struct zt_onnx *model = zt_onnx_read("model.onnx", ZT_WEIGHTS_MAPPED, &err);
    fuzz_promise(model || err.count > 0);
    if (!model)
        return 0;
    put_data(model->graph, way != 2 && way != 3);
    zt_onnx_destroy(model);
    train(words, ways[way]);
    return 0;
}
