/* The CUDA device inside the CUDA module: streams, events, library handles and scratch memory for kernels. No CUDA
 * header is needed to include this file. */
#ifndef ZT_DEVICE_CUDA_H
#define ZT_DEVICE_CUDA_H

#include "device/device.h"

/* Precision: a kernel reads `prepare->device->tf32` (device.h) when it chooses its algorithm, for fp32 tensors only. If
 * set, matrix products use CUBLAS_COMPUTE_32F_FAST_TF32, and convolutions and attention use a compute type of tensor
 * cores. It is false unless the config sets ztrain.tf32. bfloat16 has no such flag: it follows from the type of the
 * values. */

struct CUstream_st; /* cudaStream_t is a pointer to it */

/* Creates the device of rank `number` of this host (module.h) and makes it current in the calling thread. */
struct zt_device *zt_cuda_create(int number, struct zt_err *err);

/* Returns the stream for all work of the device. */
struct CUstream_st *zt_cuda_stream(const struct zt_device *device);

/* Returns a second stream for communication, created at the first call. NULL with an error on failure. */
struct CUstream_st *zt_cuda_side_stream(struct zt_device *device, struct zt_err *err);
/* Work queued on `later` after this call runs after the work queued on `earlier` before it. */
bool zt_cuda_order(struct zt_device *device, struct CUstream_st *earlier, struct CUstream_st *later,
                   struct zt_err *err);
/* The same in two steps: zt_cuda_mark() records `event` on `earlier`, zt_cuda_await() makes `later` wait for it. Events
 * come from zt_device_api. */
bool zt_cuda_mark(struct zt_device *device, struct CUstream_st *earlier, struct zt_event *event, struct zt_err *err);
bool zt_cuda_await(struct zt_device *device, struct CUstream_st *later, struct zt_event *event, struct zt_err *err);

/* Writes the UUID of the GPU. */
void zt_cuda_identity(const struct zt_device *device, unsigned char to[16]);

/* Whether a call of the CUDA runtime succeeded (`code` is its cudaError_t). Otherwise reports "DOING on DEVICE: message
 * of CUDA" and returns false. */
bool zt_cuda_good(const struct zt_device *device, int code, struct zt_err *err, const char *doing);

/* Returns the name of the GPU as CUDA reports it. */
const char *zt_cuda_name(struct zt_device *device);

/* Returns the handle of a vendor library. `create` makes it at the first call and identifies the library; the handle is
 * destroyed with the device. Returns NULL if `create` does. At most ZT_CUDA_LIBRARIES different libraries. */
enum { ZT_CUDA_LIBRARIES = 4 };
void *zt_cuda_library(struct zt_device *device, void *(*create)(void), void (*destroy)(void *));

/* ZT_CUDA_SCRATCH bytes of device memory and of pinned host memory for small results. They may be used within one call
 * only. */
enum { ZT_CUDA_SCRATCH = 1 << 16 };
void *zt_cuda_scratch(const struct zt_device *device);
void *zt_cuda_pinned(const struct zt_device *device);

/* ZT_CUDA_ARRIVED counters in device memory, zero before and after every kernel. With them a kernel determines which of
 * its blocks ends last (is_last_block of base/block.cuh). */
enum { ZT_CUDA_ARRIVED = 1 << 12 };
unsigned *zt_cuda_arrived(const struct zt_device *device);

/* Returns the workspace limit in bytes for an engine of a vendor library: an eighth of the GPU's memory, at most a
 * quarter of the free memory when the device was opened. */
size_t zt_cuda_workspace(const struct zt_device *device);

#endif
