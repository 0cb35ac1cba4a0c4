#include "base/arena.h"
#include "base/err.h"
#include "fuzz.h"
#include "graph/onnx/onnx.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int zt_main(int argc, char **argv); /* main of src/main.c */

enum { MOST_ELEMENTS = 1 << 12, MOST_INPUTS = 16, FREE_DIM = 2 };

static int no_temporary(const char *path, const struct stat *st, int kind, struct FTW *walk) {
    (void)st, (void)kind, (void)walk;
    fuzz_promise(!strstr(path, ".tmp"));
    return 0;
}

void fuzz_run(char *const *argv, const char *output) {
    int argc = 0;
    setenv("OMP_WAIT_POLICY", "passive", 0); /* else main starts the program once more */
    while (argv[argc])
        argc++;
    int code = zt_main(argc, (char **)argv);
    fuzz_promise(code >= ZT_EXIT_OK && code <= ZT_EXIT_DATA);
    nftw(output, no_temporary, 16, FTW_PHYS | FTW_MOUNT);
    fuzz_remove(output);
}

bool fuzz_tensor(const struct zt_value *v, int64_t samples, struct zt_tensor *tensor) {
    struct zt_shape shape = v->shape;
    int64_t count = 1;
    if (!zt_dtype_bytes(v->dtype) || shape.rank < 0)
        return false;
    for (int d = 0; d < shape.rank; d++) {
        if (shape.dim[d] < 0)
            shape.dim[d] = FREE_DIM;
        if (d == 0 && samples > 0)
            shape.dim[d] = samples;
        if (shape.dim[d] > MOST_ELEMENTS || (count *= shape.dim[d]) > MOST_ELEMENTS)
            return false;
    }
    void *data = zt_calloc((size_t)count + 1, 16);
    for (int64_t i = 0; i < count; i++)
        zt_store_double(v->dtype, data, i, (double)(i % 3));
    *tensor = (struct zt_tensor){ v->dtype, shape, data };
    return true;
}

static void put_input(int index, const struct zt_value *v) {
    struct zt_err err = { 0 };
    struct zt_tensor tensor;
    char name[32];
    if (!fuzz_tensor(v, 0, &tensor))
        return;
    snprintf(name, sizeof name, "in/input_%d.pb", index);
    fuzz_promise(zt_onnx_write_tensor(name, v->name, &tensor, &err));
    free((void *)tensor.data);
}

void fuzz_eager(const char *command, const uint8_t *data, size_t size) {
    char *argv[] = { "ztrain",   (char *)command, "--model",   "model.onnx", "--inputs", "in",
                     "--output", "out",           "--threads", "1",          "--quiet",  NULL };
    struct zt_err err = { 0 };
    fuzz_enter();
    fuzz_put("model.onnx", data, size);
    struct zt_onnx *model = zt_onnx_read("model.onnx", ZT_WEIGHTS_MAPPED, &err);
    fuzz_promise(model || err.count > 0);
    if (!model)
        return;
    fuzz_make("in");
    for (int i = 0; i < model->graph->input_count && i < MOST_INPUTS; i++)
        put_input(i, model->graph->values[model->graph->inputs[i]]);
    zt_onnx_destroy(model);
    fuzz_run(argv, "out");
}
