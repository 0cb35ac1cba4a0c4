#include "config/offload.h"

#include <string.h>

#define PARAM     "zero_optimization.offload_param."
#define OPTIMIZER "zero_optimization.offload_optimizer."

bool zt_offload_on(const struct zt_config *c, const struct zt_offload_config *o) {
    const int stage = o == &c->zero.offload_param ? 3 : 1;
    return o->device && strcmp(o->device, "none") != 0 && c->zero.stage >= stage;
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
