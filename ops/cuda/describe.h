/* Helpers of the *_cuda.c files of families: the description that an op row gives of its node (describe of
 * graph/ir/op.h) as the state of the CUDA kernel, and the arguments that a call passes to a launcher. Part of the
 * CUDA module. */
#ifndef ZT_OPS_CUDA_DESCRIBE_H
#define ZT_OPS_CUDA_DESCRIBE_H

#include "device/cuda.h"
#include "graph/ir/op.h"
#include "ops/cuda/launch.h"

#include <stdlib.h>

/* Writes the row's description of the node to `to`, the struct of the family. */
static inline bool zt_describe_to_cuda(const struct zt_prepare *q, void *to, struct zt_err *err) {
    return q->graph->nodes[q->node]->op->kernel[ZT_CUDA].describe(q->graph, q->node, to, err);
}

/* q->state becomes the row's description, a struct of `bytes` bytes. free() releases it. False: nothing is allocated.
 */
static inline bool zt_describe_cuda(struct zt_prepare *q, size_t bytes, struct zt_err *err) {
    void *state = zt_calloc(1, bytes);
    if (zt_describe_to_cuda(q, state, err)) {
        q->state = state;
        return true;
    }
    free(state);
    return false;
}

/* Defines id_prepare, whose state is the description alone, and the kernel of id_prepare and id_run. These are macros
 * because they define functions whose names contain the id. */
#define ZT_PREPARE_CUDA(id, type)                                                                                      \
    static bool id##_prepare(struct zt_prepare *q, struct zt_err *err) {                                               \
        return zt_describe_cuda(q, sizeof(struct type), err);                                                          \
    }
#define ZT_KERNEL_CUDA(id)                                                                                             \
    const struct zt_kernel zt_kernel_##id##_cuda = { .prepare = id##_prepare, .run = id##_run, .release = free };

/* Input or output i as launchers take it. An absent tensor has data NULL. */
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

/* The stream of the call's device. */
static inline struct CUstream_st *zt_stream_of(const struct zt_call *call) {
    return zt_cuda_stream(call->device);
}
/* ZT_CUDA_ARRIVED zeroed counters of the device, for kernels that finish in their last block (base/block.cuh). */
static inline unsigned *zt_arrived_of(const struct zt_call *call) {
    return zt_cuda_arrived(call->device);
}
/* False where a launcher returned an error; the error names the node. */
static inline bool zt_launched(const struct zt_call *call, int code, struct zt_err *err) {
    return zt_cuda_good(call->device, code, err, call->node->name);
}

/* `bytes` rounded up to a multiple of 256: what follows in a workspace then starts at such a multiple too. */
static inline size_t zt_room_cuda(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* Bytes of all elements of a tensor. */
static inline size_t zt_all_bytes_of(const struct zt_view *v) {
    return (size_t)zt_shape_count(&v->shape) * zt_dtype_bytes(v->dtype);
}

#endif
