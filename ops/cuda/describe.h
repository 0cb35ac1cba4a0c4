/* Inside the CUDA module: what a row says of its node (describe of graph/ir/op.h) as the state of the node's kernel,
 * and what a call hands to a launcher. */
#ifndef ZT_OPS_CUDA_DESCRIBE_H
#define ZT_OPS_CUDA_DESCRIBE_H

#include "device/cuda.h"
#include "graph/ir/op.h"
#include "ops/cuda/launch.h"

#include <stdlib.h>

/* The row's description of the node, into the struct of its family. */
static inline bool zt_describe_to_cuda(const struct zt_prepare *q, void *to, struct zt_err *err) {
    return q->graph->nodes[q->node]->op->kernel[ZT_CUDA].describe(q->graph, q->node, to, err);
}

/* q->state becomes the row's description, a struct of `bytes` bytes, which free() releases. */
static inline bool zt_describe_cuda(struct zt_prepare *q, size_t bytes, struct zt_err *err) {
    void *state = zt_calloc(1, bytes);
    if (zt_describe_to_cuda(q, state, err)) {
        q->state = state;
        return true;
    }
    free(state);
    return false;
}

/* id_prepare: the description alone. And a module's kernel of id_prepare and id_run. */
#define ZT_PREPARE_CUDA(id, type)                                                                                      \
    static bool id##_prepare(struct zt_prepare *q, struct zt_err *err) {                                               \
        return zt_describe_cuda(q, sizeof(struct type), err);                                                          \
    }
#define ZT_KERNEL_CUDA(id)                                                                                             \
    const struct zt_kernel zt_kernel_##id##_cuda = { .prepare = id##_prepare, .run = id##_run, .release = free };

/* Input and output i as launchers take them; those that are not there have no data. */
static inline struct zt_launch_tensor zt_tensor_cuda(const struct zt_view *views, int count, int i) {
    return i < count && views[i].data ? (struct zt_launch_tensor){ views[i].dtype, views[i].data }
                                      : (struct zt_launch_tensor){ ZT_FLOAT, NULL };
}
static inline struct zt_launch_tensor zt_in_cuda(const struct zt_call *call, int i) {
    return zt_tensor_cuda(call->in, call->in_count, i);
}
static inline struct zt_launch_tensor zt_out_cuda(const struct zt_call *call, int i) {
    return zt_tensor_cuda(call->out, call->out_count, i);
}

/* The stream of the call's device, and whether a launch on it went well; else the error names the node. */
static inline struct CUstream_st *zt_stream_of(const struct zt_call *call) {
    return zt_cuda_stream(call->device);
}
/* Counters for kernels whose last block does more (ZT_CUDA_ARRIVED of them, base/block.cuh). */
static inline unsigned *zt_arrived_of(const struct zt_call *call) {
    return zt_cuda_arrived(call->device);
}
static inline bool zt_launched(const struct zt_call *call, int code, struct zt_err *err) {
    return zt_cuda_good(call->device, code, err, call->node->name);
}

/* Room in the workspace for so many bytes: what lies behind it begins at a multiple of 256, as all offsets there do. */
static inline size_t zt_room_cuda(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static inline size_t zt_all_bytes_of(const struct zt_view *v) {
    return (size_t)zt_shape_count(&v->shape) * zt_dtype_bytes(v->dtype);
}

#endif
