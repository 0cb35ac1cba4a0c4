/* Where the tensors of a node lie that cuDNN computes. It wants addresses that are multiples of ZT_DNN_ALIGNMENT, where
 * the memory plan puts what nodes compute. What may be a parameter, or an input of the graph, has room in the workspace
 * for a copy; so have gradients of such. */
#ifndef ZT_OPS_CUDA_DNN_PLACES_CUDA_H
#define ZT_OPS_CUDA_DNN_PLACES_CUDA_H

#include "graph/ir/op.h"
#include "ops/cuda/dnn_cuda.h"

/* Whether cuDNN takes the address; and *data as it is where it does, else its copy at `room`. */
bool zt_dnn_is_placed(const void *data);
bool zt_dnn_bring(struct zt_device *device, void **data, void *room, size_t bytes, struct zt_err *err);

/* The graph where cuDNN has an engine for it, else NULL: sets p->path to cuDNN, or to our own kernel and why. */
const struct zt_dnn *zt_path_dnn(struct zt_prepare *p, const struct zt_dnn_graph *graph);
static inline struct zt_path zt_path_own(const char *why) {
    return (struct zt_path){ ZT_PATH_OWN, why };
}
/* While it runs: cuDNN's plan cannot take the addresses. */
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

/* Room from *to on, a multiple of 256 bytes, which *to then lies behind: its offset. */
size_t zt_dnn_room(size_t *to, size_t bytes);
/* Gives it to the places that need it. A tensor that the node does not have gets none. */
void zt_dnn_rooms(const struct zt_prepare *p, struct zt_dnn_place *places, int count, size_t *to);

/* data[tensor] of every place whose tensor is there, copied to its room where cuDNN would not read it. */
bool zt_dnn_gather(const struct zt_call *call, const struct zt_dnn_place *places, int count, void **data,
                   struct zt_err *err);
/* Results that were written to their rooms, to where they belong. */
bool zt_dnn_scatter(const struct zt_call *call, const struct zt_dnn_place *places, int count, void *const *data,
                    struct zt_err *err);

#endif
