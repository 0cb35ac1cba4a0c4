/* Generated kernels of fused elementwise operations (pointwise.h), for nodes that they compute wholly or in part.
 * Part of the CUDA module. */
#ifndef ZT_OPS_ELEMENTWISE_POINTWISE_CUDA_H
#define ZT_OPS_ELEMENTWISE_POINTWISE_CUDA_H

#include "graph/ir/op.h"
#include "ops/elementwise/source_cuda.h"

struct zt_cuda_code;

struct zt_pointwise_kernel {
    const struct zt_cuda_code *code; /* the device's */
    struct zt_kernel_arguments arguments;
    int inputs, width;
    size_t out_alignment, alignment[ZT_POINTWISE_INPUTS]; /* of addresses, for packs; 1: any */
    unsigned blocks;
};

/* Compiles the source and fills k->arguments with the element count and, where the source has axes, with those.
 * Nothing is to be freed. */
bool zt_pointwise_make(struct zt_pointwise_kernel *k, struct zt_device *device, const struct zt_kernel_source *source,
                       struct zt_err *err);
/* Queues the kernel on the call's device. `out` may be an input of y's layout. */
bool zt_pointwise_run(const struct zt_pointwise_kernel *kernel, const struct zt_call *call, const void *const *in,
                      void *out, struct zt_err *err);

#endif
