/* Measures how cuBLASLt's ReLU treats NaN and 0, which cuBLASLt does not document. Part of the CUDA module. */
#ifndef ZT_OPS_MATMUL_RELU_PROBE_CUDA_H
#define ZT_OPS_MATMUL_RELU_PROBE_CUDA_H

#include "ops/cuda/blas_cuda.h"

/* Whether `blas`, a product of ZT_BLAS_RELU or ZT_BLAS_RELU_KEEP with this `spec`, passes NaN, sets the bits of NaN
 * and clears those of 0. Runs it on zeros and on NaN and waits for it. False too where the memory for that is
 * missing. */
bool zt_relu_probe(struct zt_device *device, const struct zt_blas *blas, const struct zt_blas_spec *spec);

#endif
