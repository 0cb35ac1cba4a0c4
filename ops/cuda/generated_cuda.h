/* Generated kernels of a device: each source is compiled (compile_cuda.h) and loaded once. */
#ifndef ZT_OPS_CUDA_GENERATED_CUDA_H
#define ZT_OPS_CUDA_GENERATED_CUDA_H

#include "device/cuda_code.h"

/* The kernel of the source called `entry`; it stays the device's. NULL with the compiler's first words on failure. */
const struct zt_cuda_code *zt_generated_cuda(struct zt_device *device, const char *source, const char *entry,
                                             struct zt_err *err);

#endif
