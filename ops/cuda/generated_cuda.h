/* Generated kernels of a device. Each source is compiled (compile_cuda.h) and loaded once a device. */
#ifndef ZT_OPS_CUDA_GENERATED_CUDA_H
#define ZT_OPS_CUDA_GENERATED_CUDA_H

#include "device/cuda_code.h"

/* The kernel `entry` of the source. The device owns it. NULL on failure; the error holds the compiler's first line. */
const struct zt_cuda_code *zt_generated_cuda(struct zt_device *device, const char *source, const char *entry,
                                             struct zt_err *err);

#endif
