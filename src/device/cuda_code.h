/* Kernels inside the CUDA module that are loaded as machine code at run time. No CUDA header is needed to include this
 * file. */
#ifndef ZT_DEVICE_CUDA_CODE_H
#define ZT_DEVICE_CUDA_CODE_H

#include "device/device.h"

#include <stdint.h>

/* Loaded code with one kernel. */
struct zt_cuda_code {
    void *library;
    const void *kernel;
};

/* Writes the compute capability of the device, 10 * major + minor. */
bool zt_cuda_capability(const struct zt_device *device, int *to, struct zt_err *err);
/* Loads machine code, which is copied, and finds its kernel. Free with zt_cuda_unload(). */
bool zt_cuda_load(const struct zt_device *device, const void *code, const char *kernel, struct zt_cuda_code *to,
                  struct zt_err *err);
void zt_cuda_unload(struct zt_cuda_code *code);
/* Queues the kernel with `blocks` blocks of `threads` threads on the device's stream and returns the cudaError_t of the
 * launch. arguments[i] points to argument i. */
int zt_cuda_launch(const struct zt_device *device, const struct zt_cuda_code *code, unsigned blocks, unsigned threads,
                   void **arguments);

#endif
