/* Inside the CUDA module: what cuBLASLt does not say of its ReLU. */
#ifndef ZT_OPS_MATMUL_RELU_PROBE_CUDA_H
#define ZT_OPS_MATMUL_RELU_PROBE_CUDA_H

#include "ops/cuda/blas_cuda.h"

/* Whether `blas`, a product of ZT_BLAS_RELU or ZT_BLAS_RELU_KEEP of this `spec`, lets NaN through, and keeps the bits
 * of NaN but not those of 0: it is run on zeros and on NaN and waited for. False too where there is no memory for that.
 */
bool zt_relu_probe(struct zt_device *device, const struct zt_blas *blas, const struct zt_blas_spec *spec);

#endif
