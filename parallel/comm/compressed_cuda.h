/* The kernels of a compressed all-reduce in device memory, for the CUDA module. */
#ifndef ZT_PARALLEL_COMM_COMPRESSED_CUDA_H
#define ZT_PARALLEL_COMM_COMPRESSED_CUDA_H

#include "parallel/comm/compressed_call.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Queues one stage; returns the cudaError_t of the launch. The bits are those of zt_compressed_run() on the host. */
int zt_launch_compressed(struct CUstream_st *stream, enum zt_compressed_stage stage,
                         const struct zt_compressed_call *call);

#ifdef __cplusplus
}
#endif

#endif
