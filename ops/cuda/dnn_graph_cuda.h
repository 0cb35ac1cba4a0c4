/* Shared by dnn_graph_cuda.c, which builds cuDNN's descriptors of a graph, and dnn_cuda.c, which plans and runs them.
 * The only header that includes cudnn.h. */
#ifndef ZT_OPS_CUDA_DNN_GRAPH_CUDA_H
#define ZT_OPS_CUDA_DNN_GRAPH_CUDA_H

#include "base/text.h"
#include "ops/cuda/dnn_cuda.h"

#include <cudnn.h>

enum { ZT_DNN_OWNED = ZT_DNN_TENSORS + 2 * ZT_DNN_OPERATIONS + 8 };

/* A graph, its descriptors and its plan. Descriptors live as long as the plan, which refers to them. */
struct zt_dnn {
    struct zt_dnn *next; /* of the device's */
    struct zt_dnn_graph graph;
    struct zt_text key; /* the graph as text */
    bool was_cached;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties; /* of a GPU that need not be here, in place of a handle; else NULL */
    cudnnBackendDescriptor_t owned[ZT_DNN_OWNED], tensor[ZT_DNN_TENSORS], operation[ZT_DNN_OPERATIONS], plan;
    bool is_operand[ZT_DNN_TENSORS]; /* of any operation */
    int owned_count;
    int64_t workspace_bytes, workspace_most;
    char why[ZT_ERR_TEXT]; /* it has no plan; "": it has, or nobody asked yet */
};

struct zt_dnn_attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values;
};
#define LIST(name, type, count, values)                                                                                \
    { CUDNN_ATTR_##name, CUDNN_TYPE_##type, count, values }
#define ONE(name, type, value) LIST(name, type, 1, value)

/* False, with cuDNN's message, where the status is an error. `doing` tells what failed. */
bool zt_dnn_good(cudnnStatus_t status, const char *doing, struct zt_err *err);
/* Sets the attributes of a descriptor and finalizes it. */
bool zt_dnn_set(cudnnBackendDescriptor_t to, const struct zt_dnn_attribute *list, int count, const char *doing,
                struct zt_err *err);
/* Creates and finalizes a descriptor, which lives as long as `d`; NULL on failure. */
cudnnBackendDescriptor_t zt_dnn_make(struct zt_dnn *d, cudnnBackendDescriptorType_t type,
                                     const struct zt_dnn_attribute *list, int count, const char *doing,
                                     struct zt_err *err);
#define MAKE(d, type, list, doing, err)                                                                                \
    zt_dnn_make(d, CUDNN_BACKEND_##type##_DESCRIPTOR, list, (int)(sizeof(list) / sizeof *(list)), doing, err)

/* Finds an engine and its plan for the GPU named `gpu`: in the disk cache, else by cuDNN's heuristics. */
bool zt_dnn_plan(struct zt_dnn *d, const char *gpu, struct zt_err *err);

/* Writes the graph as text. Equal graphs have equal texts. */
void zt_dnn_write_key(const struct zt_dnn_graph *g, struct zt_text *to);

#endif
