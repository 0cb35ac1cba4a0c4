/* The state of cuDNN on a device: its handle, and every graph that was requested. A graph without a plan has no
 * engine. */
#include "ops/cuda/dnn_cuda.h"

#include "base/arena.h"
#include "device/cuda.h"
#include "ops/cuda/dnn_graph_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct library {
    cudnnHandle_t handle;
    struct zt_dnn *first;
};

static void *create_library(void) {
    struct library *l = zt_calloc(1, sizeof *l);
    if (cudnnCreate(&l->handle) == CUDNN_STATUS_SUCCESS)
        return l;
    free(l);
    return NULL;
}

static void destroy_library(void *library) {
    struct library *l = library;
    while (l->first) {
        struct zt_dnn *d = l->first;
        l->first = d->next;
        zt_dnn_destroy(d);
    }
    cudnnDestroy(l->handle);
    free(l);
}

static struct library *library_of(struct zt_device *device, struct zt_err *err) {
    struct library *l = zt_cuda_library(device, create_library, destroy_library);
    if (!l)
        zt_fail(err, ZT_EXIT_RUN, "cuDNN cannot be initialized");
    return l;
}

int zt_dnn_version(void) {
    return (int)cudnnGetVersion();
}

bool zt_dnn_ready(struct zt_device *device, struct zt_err *err) {
    return library_of(device, err);
}

/* The graph with this key; NULL: it was not requested yet. Releases `key`. */
static struct zt_dnn *find(const struct library *l, struct zt_text *key) {
    struct zt_dnn *d = l->first;
    while (d && strcmp(d->key.at, key->at) != 0)
        d = d->next;
    zt_text_finish(key);
    return d;
}

const struct zt_dnn *zt_dnn_get(struct zt_device *device, const struct zt_dnn_graph *graph, struct zt_err *err) {
    struct library *l = library_of(device, err);
    if (!l)
        return NULL;
    struct zt_text key = { 0 };
    zt_dnn_write_key(graph, &key);
    struct zt_dnn *d = find(l, &key);
    if (d)
        return d->plan ? d : (zt_fail(err, ZT_EXIT_RUN, "%s", d->why), NULL);
    d = zt_dnn_describe(graph, err);
    if (!d)
        return NULL;
    d->next = l->first;
    l->first = d;
    d->handle = l->handle;
    d->workspace_most = (int64_t)zt_cuda_workspace(device);
    struct zt_err why = { 0 };
    if (zt_dnn_good(cudnnSetStream(d->handle, zt_cuda_stream(device)), "setting the stream", &why) &&
        zt_dnn_plan(d, zt_cuda_name(device), &why))
        return d;
    snprintf(d->why, sizeof d->why, "%s", why.text[0]);
    zt_fail(err, ZT_EXIT_RUN, "%s", d->why);
    return NULL;
}

/* ---- running ---- */

/* Whether the tensor is an operand in memory: a variant pack with any other address is refused. */
static bool is_given(const struct zt_dnn *d, int tensor) {
    return d->is_operand[tensor] && !d->graph.tensor[tensor].inner;
}

bool zt_dnn_run(const struct zt_dnn *d, void *const *data, void *workspace, const char *name, struct zt_err *err) {
    int64_t id[ZT_DNN_TENSORS], count = 0;
    void *place[ZT_DNN_TENSORS];
    for (int i = 0; i < d->graph.tensor_count; i++)
        if (data[i] && is_given(d, i)) {
            id[count] = i + 1;
            place[count++] = data[i];
        }
    const struct zt_dnn_attribute list[] = {
        LIST(VARIANT_PACK_UNIQUE_IDS, INT64, count, id),
        LIST(VARIANT_PACK_DATA_POINTERS, VOID_PTR, count, place),
        ONE(VARIANT_PACK_WORKSPACE, VOID_PTR, &workspace),
    };
    cudnnBackendDescriptor_t pack = NULL;
    bool ran = zt_dnn_good(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), name, err) &&
               zt_dnn_set(pack, list, 3, name, err) &&
               zt_dnn_good(cudnnBackendExecute(d->handle, d->plan, pack), name, err);
    if (pack)
        cudnnBackendDestroyDescriptor(pack);
    return ran;
}
