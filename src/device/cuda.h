/* Inside the CUDA module: what kernels ask of their device. No CUDA header is needed to include this. */
#ifndef ZT_DEVICE_CUDA_H
#define ZT_DEVICE_CUDA_H

#include "device/device.h"

/* Precision: a kernel asks `prepare->device->tf32` (device.h) when it chooses its algorithm, and only for tensors of
 * fp32: matrix products then take CUBLAS_COMPUTE_32F_FAST_TF32, convolutions and attention a compute type of tensor
 * cores. It is false unless the config says ztrain.tf32. bfloat16 needs no key: a node has it where its values do. */

struct CUstream_st; /* cudaStream_t is a pointer to it */

/* The device of rank `number` of this host (module.h), current in the calling thread. */
struct zt_device *zt_cuda_create(int number, struct zt_err *err);

/* The stream on which everything of the device is queued. */
struct CUstream_st *zt_cuda_stream(const struct zt_device *device);

/* A second stream, for communication; made when first asked for, NULL with the reason where that fails. */
struct CUstream_st *zt_cuda_side_stream(struct zt_device *device, struct zt_err *err);
/* What is queued on `later` from here on runs after what is queued on `earlier` by now. */
bool zt_cuda_order(struct zt_device *device, struct CUstream_st *earlier, struct CUstream_st *later,
                   struct zt_err *err);
/* The same in two: a place of `earlier`, and what waits for it. Events are the device's (zt_device_api). */
bool zt_cuda_mark(struct zt_device *device, struct CUstream_st *earlier, struct zt_event *event, struct zt_err *err);
bool zt_cuda_await(struct zt_device *device, struct CUstream_st *later, struct zt_event *event, struct zt_err *err);

/* The 16 bytes that tell the GPU from every other one. */
void zt_cuda_identity(const struct zt_device *device, unsigned char to[16]);

/* Whether a call of the CUDA runtime went well (`code` is its cudaError_t). Else "DOING on DEVICE: what CUDA says", and
 * false. */
bool zt_cuda_good(const struct zt_device *device, int code, struct zt_err *err, const char *doing);

/* The GPU's name, as CUDA has it. */
const char *zt_cuda_name(struct zt_device *device);

/* A vendor library's handle, made by `create` when first asked for and destroyed with the device. NULL where `create`
 * gives that. At most ZT_CUDA_LIBRARIES, told apart by `create`. */
enum { ZT_CUDA_LIBRARIES = 4 };
void *zt_cuda_library(struct zt_device *device, void *(*create)(void), void (*destroy)(void *));

/* ZT_CUDA_SCRATCH bytes of device memory and of pinned host memory for small results on their way to the host; for the
 * call at hand only. */
enum { ZT_CUDA_SCRATCH = 1 << 16 };
void *zt_cuda_scratch(const struct zt_device *device);
void *zt_cuda_pinned(const struct zt_device *device);

/* ZT_CUDA_ARRIVED counters in device memory, zero before and after every launch of its stream: by them a kernel finds
 * out which of its blocks is the last to end (is_last_block of base/block.cuh). */
enum { ZT_CUDA_ARRIVED = 1 << 12 };
unsigned *zt_cuda_arrived(const struct zt_device *device);

/* Bytes of workspace that an engine of a vendor library may have at most: an eighth of the GPU's memory, or a quarter
 * of what was free when the device was opened where that is less. */
size_t zt_cuda_workspace(const struct zt_device *device);

#endif
