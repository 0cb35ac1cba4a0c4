/* Inside the CUDA module: collectives between GPUs by NCCL. The library is opened when a communicator is asked for, so
 * that the module loads where it is not installed. */
#ifndef ZT_PARALLEL_COMM_NCCL_H
#define ZT_PARALLEL_COMM_NCCL_H

#include "device/device.h"
#include "parallel/comm/comm.h"

/* As zt_module.nccl has it (device/module.h). */
struct zt_comm *zt_comm_nccl_create(struct zt_device *device, struct zt_comm *staged, struct zt_comm *host,
                                    struct zt_err *err);

#endif
