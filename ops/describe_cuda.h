/* Inside the CUDA module: what a row says of its node (describe of graph/op.h) as the state of the node's kernel. */
#ifndef ZT_OPS_DESCRIBE_CUDA_H
#define ZT_OPS_DESCRIBE_CUDA_H

#include "graph/op.h"

#include <stdlib.h>

/* q->state becomes the row's description, a struct of `bytes` bytes, which free() releases. */
static inline bool zt_describe_cuda(struct zt_prepare *q, size_t bytes, struct zt_err *err) {
    void *state = zt_calloc(1, bytes);
    if (q->graph->nodes[q->node].op->kernel[ZT_CUDA].describe(q->graph, q->node, state, err)) {
        q->state = state;
        return true;
    }
    free(state);
    return false;
}

#endif
