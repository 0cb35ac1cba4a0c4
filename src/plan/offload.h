/* Where the optimizer states and the parameters of a rank are (zero_optimization.offload_optimizer, offload_param), and
 * how much memory and disk that takes. A pure function of configuration and device. */
#ifndef ZT_PLAN_OFFLOAD_H
#define ZT_PLAN_OFFLOAD_H

#include "base/arena.h"
#include "config/config.h"

enum zt_home {
    ZT_HOME_DEVICE, /* the device's own memory; on a CPU that is the host's */
    ZT_HOME_HOST,   /* page-locked host memory beside a GPU */
    ZT_HOME_NVME,   /* files */
};

struct zt_offload {
    enum zt_home optimizer, parameters;
    struct zt_texts without_effect; /* keys that change nothing on this device, with the reason */
};

/* Decides for a device: `own_memory` says that it has memory of its own (a GPU). Errors (ZT_EXIT_CONFIG): a combination
 * that is not supported, by its key. The texts are in `arena`. */
bool zt_offload_decide(const struct zt_config *config, bool own_memory, struct zt_arena *arena, struct zt_offload *to,
                       struct zt_err *err);

#endif
