#include "plan/offload.h"

#include "config/offload.h"
#include "optim/optim.h"

#include <string.h>

#define Z "zero_optimization."

enum { MOST_SHELVES = 64, DISK_ELEMS = 1024 };

struct object {
    const char *key, *what;
    const struct zt_offload_config *config;
};

/* On a CPU, device "cpu" changes nothing. */
static void add_notice(struct zt_arena *arena, const struct object *o, struct zt_texts *to) {
    const char **at = ZT_NEW_N(arena, const char *, to->count + 1);
    if (to->count)
        memcpy(at, to->at, (size_t)to->count * sizeof *at);
    at[to->count++] = zt_arena_printf(
        arena, "%s.device = \"cpu\" (the device is the CPU: its memory holds the %s already)", o->key, o->what);
    to->at = at;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* buffer_count counts buffers of one array. Only overlapping transfers need more than one sub-group in memory; with
 * three, one is read and one is written while one is updated. */
static void size_buffers(const struct zt_config *c, struct zt_offload *to) {
    const struct zt_offload_config *o = &c->zero.offload_optimizer, *param = &c->zero.offload_param;
    const int64_t size = c->zero.sub_group_size ? c->zero.sub_group_size : ZT_SUB_GROUP_MOST;
    const int64_t buffers = to->arrays ? o->buffer_count / to->arrays : 1;
    to->ratio = o->ratio;
    to->group_elems = least(size < ZT_SUB_GROUP_LEAST ? ZT_SUB_GROUP_LEAST : size, ZT_SUB_GROUP_MOST);
    to->max_kept = param->max_in_cpu;
    to->shelves = param->buffer_count < 1 ? 1 : (int)least(param->buffer_count, MOST_SHELVES);
    to->depth = !o->pipeline_read && !o->pipeline_write ? 1 : buffers >= 3 ? 3 : 2;
}

void zt_offload_size_shelves(struct zt_offload *o, const struct zt_config *c, struct zt_arena *arena, int buckets,
                             int64_t largest) {
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

int64_t zt_offload_buffer_bytes(const struct zt_offload *o, int64_t elems) {
    const int params = zt_offload_kept(o, elems) < elems;
    const int64_t away = params ? elems : zt_offload_away(o, elems);
    const int arrays = (zt_offload_away(o, elems) ? o->arrays : 0) + params;
    return away ? o->depth * arrays * least(o->group_elems + 2 * ZT_SUB_GROUP_LEAST, away + ZT_SUB_GROUP_LEAST) *
                      (int64_t)sizeof(float)
                : 0;
}

/* State arrays of the optimizer in this configuration. */
static int count_arrays(const struct zt_config *c) {
    const struct zt_optimizer *row = zt_optimizer_find(c->optimizer.type);
    return row->states_used ? row->states_used(&c->optimizer) : row->states;
}

static bool decide(const struct zt_config *c, bool own_memory, const struct object *o, enum zt_home *to,
                   struct zt_err *err) {
    *to = ZT_HOME_DEVICE;
    if (!zt_offload_on(c, o->config) || (!own_memory && !zt_offload_nvme(c, o->config)))
        return true;
    if (!own_memory) {
        *to = ZT_HOME_NVME;
        return !c->plan_auto ||
               zt_fail(err, ZT_EXIT_CONFIG, "%s.device: \"nvme\" excludes ztrain.plan \"auto\"", o->key);
    }
    return zt_fail(err, ZT_EXIT_CONFIG, "%s.device: \"%s\" is not supported yet on %s", o->key, o->config->device,
                   own_memory ? "a GPU" : "a CPU");
}

/* What reads the states of whole tensors needs them in the device's memory. */
static bool check_states(const struct zt_config *c, const struct zt_offload *o, struct zt_err *err) {
    if (o->optimizer == ZT_HOME_DEVICE && o->parameters == ZT_HOME_DEVICE)
        return true;
    if (zt_optimizer_find(c->optimizer.type)->matrix)
        return zt_fail(err, ZT_EXIT_CONFIG, "optimizer.type: offload of the states of %s is not supported yet",
                       c->optimizer.type);
    return c->ema == 0 || zt_fail(err, ZT_EXIT_CONFIG, "ztrain.ema: offload of the average is not supported yet");
}

bool zt_offload_decide(const struct zt_config *c, bool own_memory, struct zt_arena *arena, struct zt_offload *to,
                       struct zt_err *err) {
    const struct object optimizer = { Z "offload_optimizer", "optimizer states", &c->zero.offload_optimizer },
                        parameters = { Z "offload_param", "parameters", &c->zero.offload_param };
    *to = (struct zt_offload){ .arrays = count_arrays(c) };
    size_buffers(c, to);
    for (int i = 0; i < 2 && !own_memory; i++) {
        const struct object *o = i ? &parameters : &optimizer;
        if (zt_offload_on(c, o->config) && !zt_offload_nvme(c, o->config))
            add_notice(arena, o, &to->without_effect);
    }
    if (!decide(c, own_memory, &optimizer, &to->optimizer, err) ||
        !decide(c, own_memory, &parameters, &to->parameters, err) || !check_states(c, to, err))
        return false;
    return to->parameters == ZT_HOME_DEVICE || c->parallel.stages == 1 ||
           zt_fail(err, ZT_EXIT_CONFIG, Z "offload_param.device: \"%s\" excludes pipeline.stages %d",
                   c->zero.offload_param.device, c->parallel.stages);
}
