/* The CUDA half of the program, opened when a device is asked for, and the choice of a device by name.
 *
 * ztrain-cuda.so lies beside the executable or in ../lib/ztrain from there. It carries what it needs of our own code
 * inside, links the CUDA runtime, cuBLASLt, cuDNN and NVRTC, and exports one table, so that the program itself runs
 * where no CUDA library exists. A row of the operator table says in its column ZT_CUDA that the op has a kernel and
 * which nodes it takes (ops/cuda/cuda.h); the kernel itself is found in the module's list when the node is prepared. */
#ifndef ZT_DEVICE_MODULE_H
#define ZT_DEVICE_MODULE_H

#include "base/err.h"
#include "device/device.h"

#include <stdint.h>

struct zt_comm;   /* parallel/comm/comm.h */
struct zt_kernel; /* graph/ir/op.h */
struct zt_step_call;
struct zt_step_feed; /* optim/step.h */
struct zt_step_norm;
struct zt_step_state;

struct zt_module_kernel {
    const char *domain, *name;      /* of the operator's rows */
    const struct zt_kernel *kernel; /* `supports` is unset: the row in the program answers that */
};

enum {
    ZT_MODULE_ABI = 9
}; /* counts changes of the structs that cross: zt_module, zt_device, zt_kernel, zt_call, zt_prepare, those of
      optim/step.h and those that kernels are told of nodes by (describe of graph/ir/op.h) */

struct zt_module {
    int abi;
    const char *version;                    /* of the build */
    const struct zt_module_kernel *kernels; /* ends with a NULL name */
    /* A device of this process for rank `number` of the host: ranks beyond the devices share them, in turn. Fails with
     * the reason where there is none. For the calling thread alone. */
    struct zt_device *(*create)(int number, struct zt_err *err);
    /* The ranks of `staged` (parallel/comm/comm.h, data of the device) with NCCL for the collectives on data; all else
     * goes over `staged`, and first meetings over `host`, which has the same ranks. Both are borrowed. Collective; NULL
     * on all ranks where NCCL cannot be had, or where two of them have one GPU. */
    struct zt_comm *(*nccl)(struct zt_device *device, struct zt_comm *staged, struct zt_comm *host, struct zt_err *err);
    /* to[i] += from[i] on the device. */
    bool (*add)(struct zt_device *device, float *to, const float *from, int64_t count, struct zt_err *err);
    /* Copies and casts (to fp16, else to bfloat16) within the device's memory that do not overlap, many in a launch. */
    bool (*copy_all)(struct zt_device *device, const struct zt_copy *copies, int count, struct zt_err *err);
    bool (*cast_all)(struct zt_device *device, const struct zt_cast *casts, int count, bool fp16, struct zt_err *err);
    /* Before the forward phase of a micro-batch: feed->scaled = feed->seed times the loss scale; both on the device. */
    bool (*scale_seed)(struct zt_device *device, const struct zt_step_state *state, struct zt_step_feed *feed,
                       struct zt_err *err);
    /* Samples by number, many columns in a launch. NULL: the device cannot. */
    bool (*gather)(struct zt_device *device, const struct zt_gather *columns, int count, struct zt_err *err);
    /* state->loss += *loss * *samples where there are samples; all three on the device. */
    bool (*add_loss)(struct zt_device *device, struct zt_step_state *state, const float *loss, const double *samples,
                     struct zt_err *err);
    /* Adds the squares of the gradients and the last loss to the state, and clips where no other rank has more of
     * them. */
    bool (*norm)(struct zt_device *device, const struct zt_step_norm *n, struct zt_err *err);
    /* zt_step_clip of optim/step.h. */
    bool (*clip)(struct zt_device *device, struct zt_step_state *state, double clip, struct zt_err *err);
    /* The update of optimizer `optimizer` (enum zt_optimizer_id of optim/table.h) for all pieces at once. */
    bool (*update)(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err);
    /* Before it, for optimizers with trust ratios alone: advances the moments, sets norms and ratios. */
    bool (*update_norms)(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err);
};

/* The name under which the module exports its struct zt_module. */
#define ZT_MODULE_SYMBOL "zt_cuda_module"

/* A device of `folder`/ztrain-cuda.so, as zt_module's create has it, with `threads` for what the host does beside it.
 * The module stays for the life of the process. NULL with the reason, exit code ZT_EXIT_RUN. */
struct zt_device *zt_module_device(const char *folder, int number, int threads, struct zt_err *err);

/* The device called `name` for rank `local` of this host, -1 where nobody says: then LOCAL_RANK, 0 without. "cpu";
 * "cuda": the GPU of that number, counted round where there are fewer than ranks, or an error that says why not;
 * "auto": "cuda" where module and GPU are there, else "cpu", and *why (NULL: nobody asks) says why. NULL on failure.
 * Call in the thread that will use it. */
struct zt_device *zt_device_open(const char *name, int local, int threads, struct zt_err *why, struct zt_err *err);

#endif
