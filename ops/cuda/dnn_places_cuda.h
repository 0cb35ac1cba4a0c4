/* Addresses of a node's tensors for cuDNN, which needs multiples of ZT_DNN_ALIGNMENT. The memory plan aligns what
 * nodes compute. Parameters and inputs of the graph may be unaligned: the workspace has room for copies of them and
 * of their gradients. */
#ifndef ZT_OPS_CUDA_DNN_PLACES_CUDA_H
#define ZT_OPS_CUDA_DNN_PLACES_CUDA_H

#include "graph/ir/op.h"
#include "ops/cuda/dnn_cuda.h"

/* zt_dnn_is_placed: whether the address is aligned. zt_dnn_bring: leaves an aligned *data as it is, else copies
 * `bytes` bytes to `room` and sets *data to `room`. */
bool zt_dnn_is_placed(const void *data);
bool zt_dnn_bring(struct zt_device *device, void **data, void *room, size_t bytes, struct zt_err *err);

/* The plan of the graph; NULL where cuDNN has no engine for it. Sets p->path to cuDNN, or to our own kernel and the
 * reason. */
const struct zt_dnn *zt_path_dnn(struct zt_prepare *p, const struct zt_dnn_graph *graph);
static inline struct zt_path zt_path_own(const char *why) {
    return (struct zt_path){ ZT_PATH_OWN, why };
}
/* Reports, while the node runs, that cuDNN cannot use the addresses. */
void zt_path_misplaced(const struct zt_call *call);

struct zt_dnn_place {
    int tensor;       /* of cuDNN's graph */
    int in, out;      /* of the node: an input; or output `out`, with in -1 or the input whose gradient it is */
    size_t at, bytes; /* the copy in the workspace; 0 bytes: it has none */
};
#define ZT_DNN_IN(tensor, i)                                                                                           \
    { tensor, i, -1, 0, 0 }
#define ZT_DNN_OUT(tensor, i)                                                                                          \
    { tensor, -1, i, 0, 0 }
#define ZT_DNN_GRAD(tensor, i, of)                                                                                     \
    { tensor, of, i, 0, 0 }

/* Reserves `bytes` bytes of workspace at *to, rounded up to 256. Returns their offset and advances *to. */
size_t zt_dnn_room(size_t *to, size_t bytes);
/* Reserves room for the copies of the places that need one. Absent tensors need none. */
void zt_dnn_rooms(const struct zt_prepare *p, struct zt_dnn_place *places, int count, size_t *to);

/* Sets data[tensor] of every present place; copies an unaligned input to its room. */
bool zt_dnn_gather(const struct zt_call *call, const struct zt_dnn_place *places, int count, void **data,
                   struct zt_err *err);
/* Copies results from their rooms to the outputs. */
bool zt_dnn_scatter(const struct zt_call *call, const struct zt_dnn_place *places, int count, void *const *data,
                    struct zt_err *err);

#endif
