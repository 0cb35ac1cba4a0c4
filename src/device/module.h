/* The CUDA module, opened when a CUDA device is requested, and the choice of a device by name.
 *
 * ztrain-cuda.so lies beside the executable or in ../lib/ztrain relative to it. It contains the code of ours that it
 * needs, links the CUDA runtime, cuBLASLt, cuDNN and NVRTC, and exports one table. The program itself therefore runs
 * without CUDA libraries. The ZT_CUDA column of an operator row says which nodes a CUDA kernel supports
 * (ops/cuda/cuda.h); the row's id of the kernel is its position in the module's array. */
#ifndef ZT_DEVICE_MODULE_H
#define ZT_DEVICE_MODULE_H

#include "base/err.h"
#include "device/device.h"

#include <stdint.h>

struct zt_comm;            /* parallel/comm/comm.h */
struct zt_compressed_call; /* parallel/comm/compressed_call.h */
struct zt_half_cast;       /* device/half_arrays.h */
struct zt_kernel;          /* graph/ir/op.h */
struct zt_step_call;
struct zt_step_feed; /* optim/step.h */
struct zt_step_matrix;
struct zt_step_norm;
struct zt_step_state;

enum {
    ZT_MODULE_ABI = 15
}; /* version of the structs that program and module share: zt_module, zt_device, zt_kernel, zt_call, zt_prepare, those
      of optim/step.h and parallel/comm/compressed_call.h and the node descriptions of kernels (describe of
      graph/ir/op.h) */

struct zt_module {
    int abi;
    const char *version;                    /* of the build */
    const struct zt_kernel *const *kernels; /* by id (ops/cuda/cuda.h); `supports` is unset: the row answers that */
    /* Creates the device for rank `number` of the host, for the calling thread. If there are fewer GPUs than ranks,
     * ranks share GPUs round-robin. Fails with the reason if there is no GPU. */
    struct zt_device *(*create)(int number, struct zt_err *err);
    /* Creates an NCCL communicator for the ranks of `staged` (parallel/comm/comm.h, whose data are in device memory),
     * used for collectives on tensors. All other operations go through `staged`. NCCL is initialised over `host`, which
     * has the same ranks. Both are borrowed. Collective; returns NULL on all ranks if NCCL is not available or two
     * ranks share a GPU. */
    struct zt_comm *(*nccl)(struct zt_device *device, struct zt_comm *staged, struct zt_comm *host, struct zt_err *err);
    /* to[i] += from[i] on the device. */
    bool (*add)(struct zt_device *device, float *to, const float *from, int64_t count, struct zt_err *err);
    /* Non-overlapping copies, and casts to fp16 or bfloat16, within device memory; one launch for many. */
    bool (*copy_all)(struct zt_device *device, const struct zt_copy *copies, int count, struct zt_err *err);
    bool (*cast_all)(struct zt_device *device, const struct zt_cast *casts, int count, bool fp16, struct zt_err *err);
    /* The functions of half_arrays.h. */
    bool (*narrow)(struct zt_device *device, uint16_t *to, const float *from, int64_t count,
                   const struct zt_half_cast *cast, struct zt_err *err);
    bool (*widen)(struct zt_device *device, float *to, const uint16_t *from, int64_t count,
                  const struct zt_half_cast *cast, struct zt_err *err);
    bool (*accumulate)(struct zt_device *device, float *to, const float *from, int64_t count, bool fp16,
                       struct zt_err *err);
    /* Called before the forward phase of a micro-batch: feed->scaled = feed->seed times the loss scale, both in device
     * memory. */
    bool (*scale_seed)(struct zt_device *device, const struct zt_step_state *state, struct zt_step_feed *feed,
                       struct zt_err *err);
    /* Gathers samples by number, for many columns in one launch. NULL: not supported. */
    bool (*gather)(struct zt_device *device, const struct zt_gather *columns, int count, struct zt_err *err);
    /* state->loss += *loss * *samples if there are samples; all three in device memory. */
    bool (*add_loss)(struct zt_device *device, struct zt_step_state *state, const float *loss, const double *samples,
                     struct zt_err *err);
    /* Adds the sum of squares of the gradients and the last loss to the state. Clips the gradients if no other rank has
     * part of them. */
    bool (*norm)(struct zt_device *device, const struct zt_step_norm *n, struct zt_err *err);
    /* zt_step_clip of optim/step.h. */
    bool (*clip)(struct zt_device *device, struct zt_step_state *state, double clip, struct zt_err *err);
    /* The update of optimizer `optimizer` (enum zt_optimizer_id of optim/table.h) for all pieces at once. */
    bool (*update)(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err);
    /* Behind all updates of a step: the average of the weights (ztrain.ema) advances, unless the step is left out. */
    bool (*average)(struct zt_device *device, const struct zt_step_call *s, double decay, struct zt_err *err);
    /* Exchanges the weights and their average. */
    bool (*swap_average)(struct zt_device *device, const struct zt_step_call *s, struct zt_err *err);
    /* Before update(), for optimizers with trust ratios alone: advances the moments, sets norms and ratios. */
    bool (*update_norms)(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err);
    /* Optimizers of matrices alone: writes the directions of the pieces of one; then, from the directions of the whole
     * matrix, updates its pieces. update() leaves them alone. */
    bool (*direct_matrix)(struct zt_device *device, int optimizer, const struct zt_step_call *s,
                          const struct zt_step_matrix *m, struct zt_err *err);
    bool (*update_matrix)(struct zt_device *device, int optimizer, const struct zt_step_call *s,
                          const struct zt_step_matrix *m, struct zt_err *err);
    /* Before both, for 1-bit optimizers (optim/one_bit.h): packs the gradients where this update does. */
    bool (*pack)(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err);
    /* One stage (enum zt_compressed_stage) of a compressed all-reduce. */
    bool (*compress)(struct zt_device *device, int stage, const struct zt_compressed_call *call, struct zt_err *err);
};

/* The symbol of the module's struct zt_module. */
#define ZT_MODULE_SYMBOL "zt_cuda_module"

/* Opens `folder`/ztrain-cuda.so and creates the device `number` with `threads` host threads. The module remains loaded
 * for the life of the process. On failure returns NULL with an error (ZT_EXIT_RUN). */
struct zt_device *zt_module_device(const char *folder, int number, int threads, struct zt_err *err);

/* Opens the device `name` for rank `local` of this host (-1: from LOCAL_RANK, 0 without it). "cpu" is the host. "cuda"
 * is the GPU with that number modulo the number of GPUs, or an error with the reason. "auto" is "cuda" if module and
 * GPU are available, otherwise "cpu" with the reason in *why (may be NULL). Returns NULL on failure. Must be called in
 * the thread that uses the device. */
struct zt_device *zt_device_open(const char *name, int local, int threads, struct zt_err *why, struct zt_err *err);

#endif
