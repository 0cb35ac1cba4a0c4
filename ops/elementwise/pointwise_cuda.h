/* Inside the CUDA module: the generated kernel of a chain (pointwise.h), for nodes of which it is the whole or a part.
 */
#ifndef ZT_OPS_ELEMENTWISE_POINTWISE_CUDA_H
#define ZT_OPS_ELEMENTWISE_POINTWISE_CUDA_H

#include "graph/ir/op.h"
#include "ops/elementwise/source_cuda.h"

struct zt_cuda_code;

struct zt_pointwise_kernel {
    const struct zt_cuda_code *code; /* the device's */
    struct zt_kernel_arguments arguments;
    int inputs, lanes;
    size_t out_alignment, alignment[ZT_POINTWISE_INPUTS]; /* of addresses, for packs; 1: any */
    unsigned blocks;
};

/* Compiles it; k->arguments have the element count and, where the source walks axes, these. Nothing is to be freed. */
bool zt_pointwise_make(struct zt_pointwise_kernel *k, struct zt_device *device, const struct zt_kernel_source *source,
                       struct zt_err *err);
/* Queues it on the call's device; `out` may be an input that lies as y does. */
bool zt_pointwise_run(const struct zt_pointwise_kernel *kernel, const struct zt_call *call, const void *const *in,
                      void *out, struct zt_err *err);

#endif
