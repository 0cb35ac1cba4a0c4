/* In place of ops/cuda/dnn_device_cuda.c: graphs are planned by cuDNN itself for a GPU that is not here, ZT_PLANNED_GPU
 * (h200, h100, a100), and counted where they would run. For ZT_EMULATED_DRY alone. */
#include "ops/cuda/dnn_graph_cuda.h"
#include "tests/gpu/emulated/runtime.h"
#include "tests/gpu/gpus.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static struct zt_dnn *planned;

int zt_dnn_version(void) {
    return (int)cudnnGetVersion();
}

bool zt_dnn_ready(struct zt_device *device, struct zt_err *err) {
    (void)device, (void)err;
    return true;
}

static const char *properties(void) {
    static const char *const names[ZT_GPUS] = { "h200", "h100", "a100" };
    const char *name = getenv("ZT_PLANNED_GPU");
    for (int i = 0; name && i < ZT_GPUS; i++)
        if (strcmp(names[i], name) == 0)
            return zt_gpus[i];
    return NULL;
}

static struct zt_dnn *find(const struct zt_dnn_graph *graph) {
    struct zt_text key = { 0 };
    zt_dnn_write_key(graph, &key);
    struct zt_dnn *d = planned;
    while (d && strcmp(d->key.at, key.at) != 0)
        d = d->next;
    zt_text_finish(&key);
    return d;
}

const struct zt_dnn *zt_dnn_get(struct zt_device *device, const struct zt_dnn_graph *graph, struct zt_err *err) {
    struct zt_dnn *d = find(graph);
    (void)device;
    if (!d) {
        struct zt_err why = { 0 };
        if (!(d = zt_dnn_describe(graph, err)))
            return NULL;
        d->next = planned;
        planned = d;
        if (!properties())
            zt_fail(&why, ZT_EXIT_RUN, "ZT_PLANNED_GPU names no GPU");
        else if (zt_dnn_plan_for(d, properties(), &why))
            return d;
        snprintf(d->why, sizeof d->why, "%s", why.text[0]);
    }
    if (d->plan)
        return d;
    zt_fail(err, ZT_EXIT_RUN, "%s", d->why);
    return NULL;
}

bool zt_dnn_run(const struct zt_dnn *d, void *const *data, void *workspace, const char *name, struct zt_err *err) {
    (void)d, (void)data, (void)workspace;
    return !emulated_does() || zt_fail(err, ZT_EXIT_RUN, "%s: what is planned so cannot be run", name);
}
