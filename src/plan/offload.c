#include "plan/offload.h"

#include "config/offload.h"
#include "optim/types/types.h"

#include <string.h>

#define Z "zero_optimization."

enum { MOST_SHELVES = 64, DISK_ELEMS = 1024 };

struct object {
    const char *key, *what;
    const struct zt_offload_config *config;
};

static void add_text(struct zt_arena *arena, struct zt_texts *list, const char *text) {
    const char **at = ZT_NEW_N(arena, const char *, list->count + 1);
    if (list->count)
        memcpy(at, list->at, (size_t)list->count * sizeof *at);
    at[list->count++] = text;
    list->at = at;
}

/* Lists the objects that change nothing on a CPU: device "cpu", and files of an optimizer that has no states. */
static void add_notice(struct zt_arena *arena, const struct zt_config *c, const struct object *o,
                       struct zt_offload *to) {
    const bool nvme = zt_offload_nvme(c, o->config), empty = !to->arrays && o->config == &c->zero.offload_optimizer;
    if (!zt_offload_on(c, o->config) || (nvme && !empty))
        return;
    const char *why = empty ? zt_arena_printf(arena, "%s has no states here", c->optimizer.type)
                            : zt_arena_printf(arena, "the device is the CPU: its memory holds the %s already", o->what);
    add_text(arena, &to->without_effect,
             zt_arena_printf(arena, "%s.device = \"%s\" (%s)", o->key, o->config->device, why));
}

/* Norms and matrices are those of whole tensors, whose pieces one side updates: the host, beside a GPU, all of them or
 * none. */
static void keep_tensors_whole(struct zt_arena *arena, const struct zt_config *c, struct zt_offload *to) {
    const struct zt_optimizer *row = c->optimizer.type ? zt_optimizer_find(c->optimizer.type) : NULL;
    if (!row || (!row->norms && !row->matrix) || to->optimizer == ZT_HOME_DEVICE || to->ratio == 1)
        return;
    if (to->ratio == 0)
        to->optimizer = ZT_HOME_DEVICE;
    else
        add_text(arena, &to->without_effect,
                 zt_arena_printf(arena,
                                 Z "offload_optimizer.ratio = %g (%s updates whole tensors, which the host does: all "
                                   "states are offloaded)",
                                 to->ratio, row->type.name));
    to->ratio = 1;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* buffer_count counts buffers of one array. Only overlapping transfers need more than one sub-group in memory; with
 * three, one is read and one is written while one is updated. Beside a GPU the gradients of one are copied while
 * another is updated. */
static void size_buffers(const struct zt_config *c, struct zt_offload *to) {
    const struct zt_offload_config *o = &c->zero.offload_optimizer, *param = &c->zero.offload_param;
    const int64_t size = c->zero.sub_group_size ? c->zero.sub_group_size : ZT_SUB_GROUP_MOST;
    const int64_t buffers = to->arrays ? o->buffer_count / to->arrays : 1;
    const bool overlaps = to->beside_gpu || o->pipeline_read || o->pipeline_write;
    to->ratio = o->ratio;
    to->group_elems = least(size < ZT_SUB_GROUP_LEAST ? ZT_SUB_GROUP_LEAST : size, ZT_SUB_GROUP_MOST);
    to->max_kept = param->max_in_cpu;
    to->shelves = param->buffer_count < 1 ? 1 : (int)least(param->buffer_count, MOST_SHELVES);
    to->depth = !overlaps ? 1 : buffers >= 3 ? 3 : 2;
}

void zt_offload_fit(struct zt_offload *o, const struct zt_config *c, struct zt_arena *arena, int buckets,
                    int64_t largest) {
    o->buckets = buckets;
    if (o->parameters != ZT_HOME_NVME)
        return;
    o->shelves = o->shelves < buckets ? o->shelves : buckets;
    if (largest > c->zero.offload_param.buffer_size)
        o->note = zt_arena_printf(arena,
                                  Z
                                  "offload_param.buffer_size %lld is below the largest slice of parameters: buffers "
                                  "have %lld elements",
                                  (long long)c->zero.offload_param.buffer_size, (long long)largest);
}

struct zt_aio_options zt_offload_aio(const struct zt_config *c) {
    return (struct zt_aio_options){ c->aio.block_size, c->aio.queue_depth, c->aio.threads, c->aio.single_submit,
                                    c->aio.overlap_events };
}

int64_t zt_offload_away(const struct zt_offload *o, int64_t elems) {
    return o->optimizer == ZT_HOME_DEVICE ? 0 : (int64_t)((double)elems * o->ratio);
}

int64_t zt_offload_kept(const struct zt_offload *o, int64_t elems) {
    return o->parameters == ZT_HOME_NVME ? least(o->max_kept, elems) : elems;
}

int64_t zt_offload_shelf_elems(int64_t elems) {
    return (elems / DISK_ELEMS + 2) * DISK_ELEMS;
}

int64_t zt_offload_resident(const struct zt_offload *o, int64_t elems) {
    const int64_t away = zt_offload_away(o, elems);
    return away == elems ? 0 : least(elems - away + ZT_SUB_GROUP_LEAST, elems);
}

/* Beside a GPU every sub-group has its gradients in a buffer, and its parameters where they are not in host memory. */
int64_t zt_offload_buffer_bytes(const struct zt_offload *o, int64_t elems) {
    const bool filed_params = o->parameters == ZT_HOME_NVME && zt_offload_kept(o, elems) < elems,
               filed_states = o->optimizer == ZT_HOME_NVME && o->arrays;
    const int64_t away = filed_params ? elems : zt_offload_away(o, elems);
    const int arrays =
        (filed_states ? o->arrays : 0) + (filed_params || (filed_states && o->beside_gpu)) + o->beside_gpu;
    const int64_t room = least(o->group_elems + 2 * ZT_SUB_GROUP_LEAST, away + (o->buckets + 1) * DISK_ELEMS);
    return away ? o->depth * arrays * room * (int64_t)sizeof(float) : 0;
}

/* State arrays of the optimizer in this configuration, with the average of the weights. */
static int count_arrays(const struct zt_config *c) {
    const struct zt_optimizer *row = zt_optimizer_find(c->optimizer.type);
    return (row->states_used ? row->states_used(&c->optimizer) : row->states) + (c->ema > 0);
}

static enum zt_home home_of(const struct zt_config *c, bool own_memory, const struct zt_offload_config *o) {
    return !zt_offload_on(c, o)    ? ZT_HOME_DEVICE
           : zt_offload_nvme(c, o) ? ZT_HOME_NVME
           : own_memory            ? ZT_HOME_HOST
                                   : ZT_HOME_DEVICE;
}

/* Refuses parameters that the host has and would not update. */
static bool check_gpu(const struct zt_config *c, const struct zt_offload *o, struct zt_err *err) {
    return o->parameters == ZT_HOME_DEVICE || (o->optimizer != ZT_HOME_DEVICE && o->ratio == 1) ||
           zt_fail(err, ZT_EXIT_CONFIG,
                   Z
                   "offload_param.device: \"%s\" needs offload_optimizer with ratio 1 on a GPU, which cannot update "
                   "parameters that it does not hold",
                   c->zero.offload_param.device);
}

bool zt_offload_decide(const struct zt_config *c, bool own_memory, struct zt_arena *arena, struct zt_offload *to,
                       struct zt_err *err) {
    const struct object optimizer = { Z "offload_optimizer", "optimizer states", &c->zero.offload_optimizer },
                        parameters = { Z "offload_param", "parameters", &c->zero.offload_param };
    *to = (struct zt_offload){ .optimizer = home_of(c, own_memory, optimizer.config),
                               .parameters = home_of(c, own_memory, parameters.config),
                               .beside_gpu = own_memory,
                               .arrays = count_arrays(c) };
    size_buffers(c, to);
    for (int i = 0; i < 2 && !own_memory; i++)
        add_notice(arena, c, i ? &parameters : &optimizer, to);
    if (own_memory)
        keep_tensors_whole(arena, c, to);
    return !own_memory || check_gpu(c, to, err);
}

struct zt_offload_demand zt_offload_demand(const struct zt_config *c, bool own_memory) {
    const struct object objects[] = { { Z "offload_optimizer", NULL, &c->zero.offload_optimizer },
                                      { Z "offload_param", NULL, &c->zero.offload_param } };
    struct zt_offload_demand most = { 0 };
    for (int i = 0; i < 2; i++) {
        const struct zt_offload_config *o = objects[i].config;
        const int stage = zt_offload_least_stage(c, o);
        const bool stays = !own_memory && strcmp(o->device, "cpu") == 0;
        if (stage > most.stage && !stays)
            most = (struct zt_offload_demand){ stage, objects[i].key, o->device };
    }
    return most;
}
