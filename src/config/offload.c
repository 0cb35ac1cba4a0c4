#include "config/offload.h"

#include "config/read.h"

#include <string.h>

#define PARAM     "zero_optimization.offload_param."
#define OPTIMIZER "zero_optimization.offload_optimizer."

static bool is_param(const struct zt_config *c, const struct zt_offload_config *o) {
    return o == &c->zero.offload_param;
}

static bool is_stated(const struct zt_offload_config *o) {
    return o->device && strcmp(o->device, "none") != 0;
}

int zt_offload_least_stage(const struct zt_config *c, const struct zt_offload_config *o) {
    const bool whole = is_param(c, o) || o->ratio == 1;
    return !is_stated(o) ? 0 : !is_param(c, o) && whole && strcmp(o->device, "cpu") == 0 ? 1 : 3;
}

bool zt_offload_on(const struct zt_config *c, const struct zt_offload_config *o) {
    const int stage = is_param(c, o) ? 3 : 1;
    return is_stated(o) && (c->plan_auto || c->zero.stage >= stage);
}

bool zt_offload_nvme(const struct zt_config *c, const struct zt_offload_config *o) {
    return zt_offload_on(c, o) && strcmp(o->device, "nvme") == 0;
}

/* The keys that only device "nvme" reads. */
static bool only_nvme(const char *name) {
    static const char *const names[] = {
        "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pipeline_read", "pipeline_write",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static const char *unread_of(const struct zt_config *c, const struct zt_offload_config *o, const char *name) {
    if (strcmp(name, "device") == 0)
        return NULL;
    if (!zt_offload_on(c, o))
        return "nothing is offloaded";
    return only_nvme(name) && !zt_offload_nvme(c, o) ? "only device \"nvme\" reads it" : NULL;
}

const char *zt_offload_unread(const struct zt_config *c, const char *key) {
    const struct zt_offload_config *param = &c->zero.offload_param, *optimizer = &c->zero.offload_optimizer;
    if (strncmp(key, PARAM, strlen(PARAM)) == 0)
        return unread_of(c, param, key + strlen(PARAM));
    if (strncmp(key, OPTIMIZER, strlen(OPTIMIZER)) == 0)
        return unread_of(c, optimizer, key + strlen(OPTIMIZER));
    if (strcmp(key, "zero_optimization.sub_group_size") == 0)
        return zt_offload_on(c, optimizer) ? NULL : "the optimizer is not offloaded";
    if (strncmp(key, "aio.", 4) == 0)
        return zt_offload_nvme(c, param) || zt_offload_nvme(c, optimizer) ? NULL : "nothing is offloaded to NVMe";
    return NULL;
}

void zt_offload_note_chosen(struct zt_config *c) {
    const struct zt_offload_config *const objects[] = { &c->zero.offload_optimizer, &c->zero.offload_param };
    for (int i = 0; i < 2; i++)
        if (is_stated(objects[i]) && !zt_offload_on(c, objects[i]))
            zt_texts_add(c->arena, &c->without_effect, "%sdevice = \"%s\" (plan auto chose zero_optimization.stage %d)",
                         i ? PARAM : OPTIMIZER, objects[i]->device, c->zero.stage);
}
