#include "tests/gpu/far_device.h"

#include "base/arena.h"
#include "device/half_arrays.h"
#include "device/module.h"
#include "graph/ir/op.h"
#include "ops/cuda_kernels.h"
#include "optim/one_bit/trust.h"
#include "optim/types/types.h"
#include "optim/step.h"
#include "parallel/comm/compressed_cpu.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCKS = 16 };
static const size_t room = (size_t)1 << 30; /* of address space */

/* All blocks lie in one range of addresses, so that one call changes who may read and write them. */
struct far {
    struct zt_device base;
    char *range;
    size_t used; /* bytes at the start of the range that have been given to blocks */
    struct {
        char *at;
        size_t bytes;
    } block[BLOCKS];
};

static struct far *far_of(const struct zt_device *device) {
    return (struct far *)device;
}

static void set_access(const struct zt_device *device, int access) {
    if (far_of(device)->used && mprotect(far_of(device)->range, far_of(device)->used, access) != 0)
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

/* The first address behind `at` where `bytes` are free. */
static char *first_free(const struct far *d, char *at, size_t bytes) {
    for (int i = 0; i < BLOCKS; i++)
        if (d->block[i].at && at < d->block[i].at + d->block[i].bytes && d->block[i].at < at + bytes)
            return first_free(d, d->block[i].at + d->block[i].bytes, bytes);
    return at;
}

static void *far_allocate(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    struct far *d = far_of(device);
    const size_t wanted = (bytes / 4096 + 1) * 4096;
    char *at = first_free(d, d->range, wanted);
    const size_t end = (size_t)(at - d->range) + wanted;
    int i = 0;
    while (i < BLOCKS && d->block[i].at)
        i++;
    if (end > room || i == BLOCKS) {
        zt_fail(err, ZT_EXIT_RUN, "no room for %s", what);
        return NULL;
    }
    d->block[i].at = at;
    d->block[i].bytes = wanted;
    d->used = end > d->used ? end : d->used;
    return at;
}

/* Maps zeros that nobody may read, at `at` if it is not NULL. */
static char *map_zeros(char *at, size_t bytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    char *got = mmap(at, bytes, PROT_NONE, flags, -1, 0);
    if (got == MAP_FAILED)
        abort();
    return got;
}

static void far_free(struct zt_device *device, void *memory, size_t bytes) {
    (void)bytes;
    for (int i = 0; i < BLOCKS; i++)
        if (memory && far_of(device)->block[i].at == memory) {
            map_zeros(memory, far_of(device)->block[i].bytes);
            far_of(device)->block[i].at = NULL;
        }
}

static void *far_allocate_host(struct zt_device *device, size_t bytes, const char *what, struct zt_err *err) {
    (void)device;
    return zt_block_create(bytes, what, err);
}

static void far_free_host(struct zt_device *device, void *memory, size_t bytes) {
    (void)device;
    zt_block_destroy(memory, bytes);
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

/* Everything is done when it returns. */
static struct zt_event *far_event_create(struct zt_device *device, struct zt_err *err) {
    (void)err;
    return (struct zt_event *)device;
}
static bool far_event(struct zt_device *device, struct zt_event *event, struct zt_err *err) {
    (void)device, (void)event, (void)err;
    return true;
}
static void far_event_destroy(struct zt_device *device, struct zt_event *event) {
    (void)device, (void)event;
}

static void far_destroy(struct zt_device *device) {
    munmap(far_of(device)->range, room);
    free(device);
}

/* ---- kernels ---- */

/* State of a prepared reference kernel, and the function that frees it. */
struct prepared {
    void *state;
    void (*release)(void *state);
};

static bool prepare_kernel(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_kernel *reference = &p->graph->nodes[p->node]->op->kernel[ZT_REF];
    if (reference->prepare && !reference->prepare(p, err))
        return false;
    struct prepared *kept = zt_malloc(sizeof *kept);
    *kept = (struct prepared){ p->state, reference->release };
    p->state = kept;
    return true;
}

static void release_kernel(void *state) {
    struct prepared *kept = state;
    if (kept && kept->release)
        kept->release(kept->state);
    free(kept);
}

static bool run_kernel(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *views[] = { call->in, call->out };
    const int counts[] = { call->in_count, call->out_count };
    struct zt_call own = *call;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < counts[side]; i++)
            if (views[side][i].data && !is_far(call->device, views[side][i].data))
                return zt_fail(err, ZT_EXIT_RUN, "%s: %s %d is in host memory", call->node->name,
                               side ? "output" : "input", i);
    own.state = ((const struct prepared *)call->state)->state;
    set_access(call->device, PROT_READ | PROT_WRITE);
    bool ok = call->node->op->kernel[ZT_REF].run(&own, err);
    set_access(call->device, PROT_NONE);
    return ok;
}

static const struct zt_kernel kernel = { .prepare = prepare_kernel, .run = run_kernel, .release = release_kernel };

/* ---- the optimizers: the loops of the host ---- */

static union zt_coefficients coefficients_of(const struct zt_step_call *s, int group) {
    union zt_coefficients c = s->table[(s->state->updates - s->state->first) * s->groups + group];
    c.scale = s->state->scale;
    return c;
}

static bool update(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int k = 0; k < s->piece_count && s->state->finite; k++) {
        const struct zt_step_piece *p = &s->pieces[k];
        union zt_coefficients c = coefficients_of(s, p->group);
        if (p->matrix)
            continue;
        double ratio = zt_optimizers[optimizer]->norms ? s->ratios[p->tensor] : 1;
        ratio = s->trust ? (double)s->trust[p->tensor].ratio : ratio;
        zt_optimizers[optimizer]->update(&c, ratio, p->param, p->grad, p->state, p->count);
    }
    set_access(device, PROT_NONE);
    return true;
}

static struct zt_slice slice_of(const struct zt_step_call *s, const struct zt_step_piece *p) {
    return (struct zt_slice){ p->param, (float *)p->grad, p->state, p->count, s->trust ? &s->trust[p->tensor] : NULL };
}

static bool pack(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err) {
    const struct zt_one_bit *one_bit = zt_optimizers[optimizer]->one_bit;
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int k = 0; k < s->piece_count && s->state->finite; k++) {
        const union zt_coefficients c = coefficients_of(s, s->pieces[k].group);
        const struct zt_slice slice = slice_of(s, &s->pieces[k]);
        one_bit->pack(&c, &slice);
    }
    set_access(device, PROT_NONE);
    return true;
}

static void find_trust(const struct zt_optimizer *row, const struct zt_step_call *s) {
    for (int k = 0, next; k < s->piece_count && s->state->finite; k = next) {
        const int tensor = s->pieces[k].tensor;
        const union zt_coefficients c = coefficients_of(s, s->pieces[k].group);
        struct zt_trust_norms norms = { 0 };
        for (next = k; next < s->piece_count && s->pieces[next].tensor == tensor; next++) {
            const struct zt_slice slice = slice_of(s, &s->pieces[next]);
            row->one_bit->norms(&c, &slice, &norms);
        }
        row->one_bit->trust(&c, &norms, &s->trust[tensor]);
    }
}

static void find_ratios(const struct zt_optimizer *row, const struct zt_step_call *s) {
    memset(s->norms, 0, 2 * (size_t)s->tensor_count * sizeof *s->norms);
    for (int k = 0; k < s->piece_count && s->state->finite; k++) {
        const struct zt_step_piece *p = &s->pieces[k];
        union zt_coefficients c = coefficients_of(s, p->group);
        double norms[2] = { 0 };
        row->norms(&c, p->param, p->grad, p->state, p->count, norms);
        for (int i = 0; i < 2; i++)
            s->norms[2 * p->tensor + i] += p->measured ? norms[i] : 0;
    }
    const union zt_coefficients limits = coefficients_of(s, 0);
    for (int t = 0; t < s->tensor_count; t++)
        s->ratios[t] = row->ratio(&limits, s->norms + 2 * t);
}

static bool update_norms(struct zt_device *device, int optimizer, const struct zt_step_call *s, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    if (s->trust)
        find_trust(zt_optimizers[optimizer], s);
    else
        find_ratios(zt_optimizers[optimizer], s);
    set_access(device, PROT_NONE);
    return true;
}

static bool compress(struct zt_device *device, int stage, const struct zt_compressed_call *call, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    zt_compressed_run(1, (enum zt_compressed_stage)stage, call);
    set_access(device, PROT_NONE);
    return true;
}

static bool direct_matrix(struct zt_device *device, int optimizer, const struct zt_step_call *s,
                          const struct zt_step_matrix *m, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int k = m->first_piece; k < m->first_piece + m->piece_count && s->state->finite; k++) {
        const struct zt_step_piece *p = &s->pieces[k];
        union zt_coefficients c = coefficients_of(s, p->group);
        zt_optimizers[optimizer]->matrix->direct(&c, p->grad, p->state, m->direction + p->at, p->count);
    }
    set_access(device, PROT_NONE);
    return true;
}

static bool update_matrix(struct zt_device *device, int optimizer, const struct zt_step_call *s,
                          const struct zt_step_matrix *m, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    const struct zt_matrix_optimizer *row = zt_optimizers[optimizer]->matrix;
    const float *direction = row->orthogonalise(m->method, &m->shape, m->direction, m->room, &zt_matrix_plain);
    for (int k = m->first_piece; k < m->first_piece + m->piece_count && s->state->finite; k++) {
        const struct zt_step_piece *p = &s->pieces[k];
        union zt_coefficients c = coefficients_of(s, p->group);
        row->apply(&c, p->param, direction + p->at, p->count);
    }
    set_access(device, PROT_NONE);
    return true;
}

static bool average(struct zt_device *device, const struct zt_step_call *s, double decay, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int k = 0; k < s->piece_count && s->state->finite; k++)
        zt_average(decay, s->pieces[k].param, s->pieces[k].average, s->pieces[k].count);
    set_access(device, PROT_NONE);
    return true;
}

static bool swap_average(struct zt_device *device, const struct zt_step_call *s, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int k = 0; k < s->piece_count; k++)
        for (int64_t i = 0; i < s->pieces[k].count; i++) {
            float weight = s->pieces[k].param[i];
            s->pieces[k].param[i] = s->pieces[k].average[i];
            s->pieces[k].average[i] = weight;
        }
    set_access(device, PROT_NONE);
    return true;
}

/* ---- sums and the state ---- */

static bool copy_all(struct zt_device *device, const struct zt_copy *copies, int count, struct zt_err *err) {
    bool ok = true;
    for (int i = 0; ok && i < count; i++)
        ok = far_copy(device, copies[i].to, copies[i].from, copies[i].bytes, err);
    return ok;
}

static bool cast_all(struct zt_device *device, const struct zt_cast *casts, int count, bool fp16, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int i = 0; i < count; i++)
        for (int64_t k = 0; k < casts[i].count; k++) /* nothing is channels last here */
            zt_store_double(fp16 ? ZT_FLOAT16 : ZT_BFLOAT16, casts[i].to, k, (double)((const float *)casts[i].from)[k]);
    set_access(device, PROT_NONE);
    return true;
}

static bool narrow(struct zt_device *device, uint16_t *to, const float *from, int64_t count,
                   const struct zt_half_cast *cast, struct zt_err *err) {
    struct zt_device host = { .threads = 1 };
    set_access(device, PROT_READ | PROT_WRITE);
    const bool ok = zt_half_narrow(&host, to, from, count, cast, err);
    set_access(device, PROT_NONE);
    return ok;
}

static bool widen(struct zt_device *device, float *to, const uint16_t *from, int64_t count,
                  const struct zt_half_cast *cast, struct zt_err *err) {
    struct zt_device host = { .threads = 1 };
    set_access(device, PROT_READ | PROT_WRITE);
    const bool ok = zt_half_widen(&host, to, from, count, cast, err);
    set_access(device, PROT_NONE);
    return ok;
}

static bool accumulate(struct zt_device *device, float *to, const float *from, int64_t count, bool fp16,
                       struct zt_err *err) {
    struct zt_device host = { .threads = 1 };
    set_access(device, PROT_READ | PROT_WRITE);
    const bool ok = zt_half_accumulate(&host, to, from, count, fp16, err);
    set_access(device, PROT_NONE);
    return ok;
}

static bool add(struct zt_device *device, float *to, const float *from, int64_t count, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
    set_access(device, PROT_NONE);
    return true;
}

static bool scale_seed(struct zt_device *device, const struct zt_step_state *state, struct zt_step_feed *feed,
                       struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    feed->scaled = feed->seed * zt_scaling_seed(state->loss_scale);
    set_access(device, PROT_NONE);
    return true;
}

static bool add_loss(struct zt_device *device, struct zt_step_state *state, const float *loss, const double *samples,
                     struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    zt_step_add_loss(state, loss, samples);
    set_access(device, PROT_NONE);
    return true;
}

static bool norm(struct zt_device *device, const struct zt_step_norm *n, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    for (int i = 0; i < n->count; i++)
        n->state->squares += zt_sum_squares(n->x[i].at, n->x[i].count);
    if (n->loss)
        zt_step_add_loss(n->state, n->loss, n->samples);
    if (n->whole)
        zt_step_clip(n->state, n->clip);
    set_access(device, PROT_NONE);
    return true;
}

static bool clip(struct zt_device *device, struct zt_step_state *state, double most, struct zt_err *err) {
    (void)err;
    set_access(device, PROT_READ | PROT_WRITE);
    zt_step_clip(state, most);
    set_access(device, PROT_NONE);
    return true;
}

#define KERNEL(id) &kernel,
static const struct zt_kernel *const kernels[] = { ZT_FAMILIES(ZT_CUDA_KERNELS_OF) };
static const struct zt_module module = { .abi = ZT_MODULE_ABI,
                                         .version = ZT_VERSION,
                                         .kernels = kernels,
                                         .add = add,
                                         .copy_all = copy_all,
                                         .cast_all = cast_all,
                                         .narrow = narrow,
                                         .widen = widen,
                                         .accumulate = accumulate,
                                         .scale_seed = scale_seed,
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
                                         .compress = compress };

static const struct zt_device_api api = {
    .name = "far",
    .backend = ZT_CUDA,
    .allocate = far_allocate,
    .free = far_free,
    .allocate_host = far_allocate_host,
    .free_host = far_free_host,
    .to_device = far_to_device,
    .to_host = far_to_host,
    .copy = far_copy,
    .zero = far_zero,
    .event_create = far_event_create,
    .record = far_event,
    .wait = far_event,
    .event_destroy = far_event_destroy,
    .synchronize = far_synchronize,
    .destroy = far_destroy,
};

struct zt_device *far_device_create(void) {
    struct far *d = zt_calloc(1, sizeof *d);
    d->base = (struct zt_device){ .api = &api, .threads = 1, .module = &module };
    d->range = map_zeros(NULL, room);
    return &d->base;
}
