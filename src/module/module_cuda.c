/* The table that ztrain-cuda.so exports. This file is not part of the program itself. */
#include "device/module.h"
#include "device/arrays_cuda.h"
#include "device/cuda.h"
#include "ops/cuda/kernels.h"
#include "optim/step_cuda.h"
#include "optim/types/types.h"
#include "parallel/comm/compressed_cuda.h"
#include "parallel/comm/nccl.h"

#include <stdio.h>
#include <string.h>

/* ---- optimizers ---- */

#define KERNELS(name) [ZT_OPTIMIZER_##name] = &zt_optimizer_cuda_##name,
static const struct zt_optimizer_cuda *const optimizers[ZT_OPTIMIZER_COUNT] = { ZT_OPTIMIZERS(KERNELS) };

static bool update(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err) {
    return zt_cuda_good(device, optimizers[optimizer]->update(zt_cuda_stream(device), s), err,
                        zt_optimizers[optimizer]->type.name);
}

static bool update_norms(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err) {
    char what[64];
    snprintf(what, sizeof what, "the norms of %s", zt_optimizers[optimizer]->type.name);
    return zt_cuda_good(device, optimizers[optimizer]->norms(zt_cuda_stream(device), s), err, what);
}

static bool direct_matrix(struct zt_device *device, int optimizer, const struct zt_step_call *s,
                          const struct zt_step_matrix *m, struct zt_err *err) {
    return zt_cuda_good(device, optimizers[optimizer]->direct(zt_cuda_stream(device), s, m), err,
                        zt_optimizers[optimizer]->type.name);
}

static bool update_matrix(struct zt_device *device, int optimizer, const struct zt_step_call *s,
                          const struct zt_step_matrix *m, struct zt_err *err) {
    return zt_cuda_good(device, optimizers[optimizer]->matrix(zt_cuda_stream(device), s, m), err,
                        zt_optimizers[optimizer]->type.name);
}

static bool average(struct zt_device *device, const struct zt_step_call *s, double decay, struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_average(zt_cuda_stream(device), s, decay), err, "averaging weights");
}

static bool swap_average(struct zt_device *device, const struct zt_step_call *s, struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_swap_average(zt_cuda_stream(device), s), err, "exchanging weights");
}

static bool pack(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err) {
    char what[64];
    snprintf(what, sizeof what, "packing for %s", zt_optimizers[optimizer]->type.name);
    return zt_cuda_good(device, optimizers[optimizer]->pack(zt_cuda_stream(device), s), err, what);
}

/* ---- sums and the state of the step ---- */

static bool add(struct zt_device *device, float *to, const float *from, int64_t count, struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_accumulate(zt_cuda_stream(device), to, from, count), err, "adding gradients");
}

static bool narrow(struct zt_device *device, uint16_t *to, const float *from, int64_t count,
                   const struct zt_half_cast *cast, struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_narrow(zt_cuda_stream(device), to, from, count, cast), err,
                        "casting gradients");
}

static bool widen(struct zt_device *device, float *to, const uint16_t *from, int64_t count,
                  const struct zt_half_cast *cast, struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_widen(zt_cuda_stream(device), to, from, count, cast), err,
                        "casting gradients");
}

static bool accumulate(struct zt_device *device, float *to, const float *from, int64_t count, bool fp16,
                       struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_accumulate_half(zt_cuda_stream(device), to, from, count, fp16), err,
                        "adding gradients");
}

static bool copy_all(struct zt_device *device, const struct zt_copy *copies, int count, struct zt_err *err) {
    bool ok = true;
    for (int first = 0; ok && first < count; first += ZT_COPIES) {
        struct zt_launch_copies some = { .count = count - first < ZT_COPIES ? count - first : ZT_COPIES };
        memcpy(some.at, copies + first, (size_t)some.count * sizeof *copies);
        ok = zt_cuda_good(device, zt_launch_copies(zt_cuda_stream(device), &some), err, "copying statistics");
    }
    return ok;
}

static bool cast_all(struct zt_device *device, const struct zt_cast *casts, int count, bool fp16, struct zt_err *err) {
    bool ok = true;
    for (int first = 0; ok && first < count; first += ZT_CASTS) {
        struct zt_launch_casts some = { .count = count - first < ZT_CASTS ? count - first : ZT_CASTS, .fp16 = fp16 };
        memcpy(some.at, casts + first, (size_t)some.count * sizeof *casts);
        ok = zt_cuda_good(device, zt_launch_casts(zt_cuda_stream(device), &some), err, "casting weights");
    }
    return ok;
}

static bool scale_seed(struct zt_device *device, const struct zt_step_state *state, struct zt_step_feed *feed,
                       struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_scale_seed(zt_cuda_stream(device), state, feed), err, "scaling the loss");
}

static bool gather(struct zt_device *device, const struct zt_gather *columns, int count, struct zt_err *err) {
    bool ok = true;
    for (int first = 0; ok && first < count; first += ZT_GATHERS) {
        struct zt_launch_gathers some = { .count = count - first < ZT_GATHERS ? count - first : ZT_GATHERS };
        memcpy(some.at, columns + first, (size_t)some.count * sizeof *columns);
        ok = zt_cuda_good(device, zt_launch_gathers(zt_cuda_stream(device), &some), err, "gathering samples");
    }
    return ok;
}

static bool add_loss(struct zt_device *device, struct zt_step_state *state, const float *loss, const double *samples,
                     struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_add_loss(zt_cuda_stream(device), state, loss, samples), err, "adding losses");
}

/* The last launch adds the loss and clips. */
static bool norm(struct zt_device *device, const struct zt_step_norm *n, struct zt_err *err) {
    _Static_assert(ZT_SQUARE_PARTS * sizeof(double) <= ZT_CUDA_SCRATCH, "partial sums fit the scratch memory");
    int done = 0;
    do {
        const int left = n->count - done;
        struct zt_launch_step_norm some = { .of = *n,
                                            .count = left < ZT_SQUARES ? left : ZT_SQUARES,
                                            .parts = zt_cuda_scratch(device),
                                            .arrived = zt_cuda_arrived(device) };
        if (left > ZT_SQUARES) {
            some.of.loss = NULL;
            some.of.whole = false;
        }
        memcpy(some.at, n->x + done, (size_t)some.count * sizeof *n->x);
        if (!zt_cuda_good(device, zt_launch_step_norm(zt_cuda_stream(device), &some), err, "the gradient norm"))
            return false;
        done += some.count;
    } while (done < n->count);
    return true;
}

static bool clip(struct zt_device *device, struct zt_step_state *state, double most, struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_clip(zt_cuda_stream(device), state, most), err, "clipping");
}

static bool compress(struct zt_device *device, int stage, const struct zt_compressed_call *call, struct zt_err *err) {
    return zt_cuda_good(device, zt_launch_compressed(zt_cuda_stream(device), (enum zt_compressed_stage)stage, call),
                        err, "compressing");
}

__attribute__((visibility("default"))) extern const struct zt_module zt_cuda_module;

const struct zt_module zt_cuda_module = {
    .abi = ZT_MODULE_ABI,
    .version = ZT_VERSION,
    .kernels = zt_kernels_cuda,
    .create = zt_cuda_create,
    .nccl = zt_comm_nccl_create,
    .add = add,
    .copy_all = copy_all,
    .cast_all = cast_all,
    .narrow = narrow,
    .widen = widen,
    .accumulate = accumulate,
    .scale_seed = scale_seed,
    .gather = gather,
    .add_loss = add_loss,
    .norm = norm,
    .clip = clip,
    .update = update,
    .update_norms = update_norms,
    .direct_matrix = direct_matrix,
    .update_matrix = update_matrix,
    .average = average,
    .swap_average = swap_average,
    .pack = pack,
    .compress = compress,
};
