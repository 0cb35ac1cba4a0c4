/* CUDA module: collectives between GPUs with NCCL. The library is loaded when the first communicator is created, so the
 * module also loads where NCCL is not installed. */
#ifndef ZT_PARALLEL_COMM_NCCL_H
#define ZT_PARALLEL_COMM_NCCL_H

#include "device/device.h"
#include "parallel/comm/comm.h"

/* The function zt_module.nccl (device/module.h). */
struct zt_comm *zt_comm_nccl_create(struct zt_device *device, struct zt_comm *staged, struct zt_comm *host,
                                    struct zt_err *err);

#endif
