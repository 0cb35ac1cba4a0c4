#include "tests/gpu/far_device.h"

#include "base/arena.h"
#include "device/module.h"
#include "graph/op.h"
#include "ops/cuda.h"
#include "optim/optim.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCKS = 16 };

struct far {
    struct zt_device base;
    struct {
        char *at;
        size_t bytes;
    } block[BLOCKS];
};

static struct far *far_of(const struct zt_device *device) {
    return (struct far *)device;
}

static void set_access(const struct zt_device *device, int access) {
    for (int i = 0; i < BLOCKS; i++)
        if (far_of(device)->block[i].at &&
            mprotect(far_of(device)->block[i].at, far_of(device)->block[i].bytes, access) != 0)
            abort();
}

static bool is_far(const struct zt_device *device, const void *data) {
    for (int i = 0; i < BLOCKS; i++) {
        const char *first = far_of(device)->block[i].at;
        if (first && (const char *)data >= first && (const char *)data < first + far_of(device)->block[i].bytes)
            return true;
    }
    return false;
}

/* ---- the device ---- */

static void *far_allocate(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    size_t room = (bytes / 4096 + 1) * 4096;
    char *at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int i = 0;
    while (i < BLOCKS && far_of(device)->block[i].at)
        i++;
    if (at == MAP_FAILED || i == BLOCKS) {
        zt_fail(err, ZT_EXIT_RUN, "no room for %s", what);
        return NULL;
    }
    far_of(device)->block[i].at = at;
    far_of(device)->block[i].bytes = room;
    return at;
}

static void far_free(struct zt_device *device, void *memory, size_t bytes) {
    (void)bytes;
    for (int i = 0; i < BLOCKS; i++)
        if (memory && far_of(device)->block[i].at == memory) {
            munmap(memory, far_of(device)->block[i].bytes);
            far_of(device)->block[i].at = NULL;
        }
}

/* far_to, far_from: on which side the addresses must be. */
static bool move(struct zt_device *device, void *to, bool far_to, const void *from, bool far_from, size_t bytes,
                 struct zt_err *err) {
    if (bytes == 0)
        return true;
    if (is_far(device, to) != far_to || is_far(device, from) != far_from)
        return zt_fail(err, ZT_EXIT_RUN, "a copy of %zu bytes has its ends in the wrong memory", bytes);
    set_access(device, PROT_READ | PROT_WRITE);
    memcpy(to, from, bytes);
    set_access(device, PROT_NONE);
    return true;
}

static bool far_to_device(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return move(device, to, true, from, false, bytes, err);
}
static bool far_to_host(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return move(device, to, false, from, true, bytes, err);
}
static bool far_copy(struct zt_device *device, void *to, const void *from, size_t bytes, struct zt_err *err) {
    return move(device, to, true, from, true, bytes, err);
}

static bool far_zero(struct zt_device *device, void *memory, size_t bytes, struct zt_err *err) {
    if (bytes && !is_far(device, memory))
        return zt_fail(err, ZT_EXIT_RUN, "host memory is cleared as the device's");
    set_access(device, PROT_READ | PROT_WRITE);
    memset(memory, 0, bytes);
    set_access(device, PROT_NONE);
    return true;
}

static bool far_synchronize(struct zt_device *device, struct zt_err *err) {
    (void)device, (void)err;
    return true;
}

static void far_destroy(struct zt_device *device) {
    free(device);
}

/* ---- kernels ---- */

static bool run_kernel(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *views[] = { call->in, call->out };
    const int counts[] = { call->in_count, call->out_count };
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < counts[side]; i++)
            if (views[side][i].data && !is_far(call->device, views[side][i].data))
                return zt_fail(err, ZT_EXIT_RUN, "%s: %s %d is in host memory", call->node->name,
                               side ? "output" : "input", i);
    set_access(call->device, PROT_READ | PROT_WRITE);
    bool ok = call->node->op->kernel[ZT_REF].run(call, err);
    set_access(call->device, PROT_NONE);
    return ok;
}

static const struct zt_kernel kernel = { .run = run_kernel };

static bool update(struct zt_device *device, const char *name, const struct zt_update *u, float *p, const float *g,
                   float *const state[], int64_t count) {
    set_access(device, PROT_READ | PROT_WRITE);
    zt_optimizer_find(name)->update(u, p, g, state, count);
    set_access(device, PROT_NONE);
    return true;
}

#define OPTIMIZER(id, name)                                                                                            \
    static bool id(struct zt_device *device, const struct zt_update *u, float *p, const float *g,                      \
                   float *const state[], int64_t count, struct zt_err *err) {                                          \
        (void)err;                                                                                                     \
        return update(device, name, u, p, g, state, count);                                                            \
    }
OPTIMIZER(adam, "Adam")
OPTIMIZER(adamw, "AdamW")
OPTIMIZER(sgd, "SGD")

static bool add(struct zt_device *device, float *to, const float *from, int64_t count, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
    set_access(device, PROT_NONE);
    return true;
}

static bool sum_squares(struct zt_device *device, const float *x, int64_t count, double *sum, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    *sum = zt_sum_squares(x, count);
    set_access(device, PROT_NONE);
    return true;
}

#define ROW(domain, name, id) { domain, name, &kernel },
static const struct zt_module_kernel kernels[] = { ZT_CUDA_OPS(ROW){ 0 } };
static const struct zt_module_optimizer optimizers[] = { { "Adam", adam }, { "AdamW", adamw }, { "SGD", sgd }, { 0 } };
static const struct zt_module module = { .abi = ZT_MODULE_ABI,
                                         .version = ZT_VERSION,
                                         .kernels = kernels,
                                         .optimizers = optimizers,
                                         .add = add,
                                         .sum_squares = sum_squares };

static const struct zt_device_api api = {
    .name = "far",
    .backend = ZT_CUDA,
    .allocate = far_allocate,
    .free = far_free,
    .to_device = far_to_device,
    .to_host = far_to_host,
    .copy = far_copy,
    .zero = far_zero,
    .synchronize = far_synchronize,
    .destroy = far_destroy,
};

struct zt_device *far_device_create(void) {
    struct far *d = zt_calloc(1, sizeof *d);
    d->base = (struct zt_device){ .api = &api, .threads = 1, .module = &module };
    return &d->base;
}
