#include "plan/offload.h"

#include "config/offload.h"

#include <string.h>

#define Z "zero_optimization."

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

static bool decide(const struct zt_config *c, bool own_memory, const struct object *o, enum zt_home *to,
                   struct zt_err *err) {
    *to = ZT_HOME_DEVICE;
    if (!zt_offload_on(c, o->config) || (!own_memory && !zt_offload_nvme(c, o->config)))
        return true;
    return zt_fail(err, ZT_EXIT_CONFIG, "%s.device: \"%s\" is not supported yet on %s", o->key, o->config->device,
                   own_memory ? "a GPU" : "a CPU");
}

bool zt_offload_decide(const struct zt_config *c, bool own_memory, struct zt_arena *arena, struct zt_offload *to,
                       struct zt_err *err) {
    const struct object optimizer = { Z "offload_optimizer", "optimizer states", &c->zero.offload_optimizer },
                        parameters = { Z "offload_param", "parameters", &c->zero.offload_param };
    *to = (struct zt_offload){ 0 };
    for (int i = 0; i < 2 && !own_memory; i++) {
        const struct object *o = i ? &parameters : &optimizer;
        if (zt_offload_on(c, o->config) && !zt_offload_nvme(c, o->config))
            add_notice(arena, o, &to->without_effect);
    }
    return decide(c, own_memory, &optimizer, &to->optimizer, err) &&
           decide(c, own_memory, &parameters, &to->parameters, err);
}
