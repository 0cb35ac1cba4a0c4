#include "optim/optim.h"

#include <string.h>
#include <strings.h>

#define DECLARE(name) extern const struct zt_optimizer zt_optimizer_##name;
ZT_OPTIMIZERS(DECLARE)

#define ROW(name) [ZT_OPTIMIZER_##name] = &zt_optimizer_##name,
const struct zt_optimizer *const zt_optimizers[] = { ZT_OPTIMIZERS(ROW) NULL };

#define TYPE_OF(name) &zt_optimizer_##name.type,
const struct zt_key_owner *const zt_optimizer_types[] = { ZT_OPTIMIZERS(TYPE_OF) NULL };

const struct zt_optimizer *zt_optimizer_find(const char *type) {
    for (int i = 0; zt_optimizers[i]; i++)
        if (strcasecmp(zt_optimizers[i]->type.name, type) == 0)
            return zt_optimizers[i];
    return NULL;
}

const char *zt_optimizer_state(const struct zt_optimizer *optimizer, const struct zt_optimizer_config *config, int i) {
    return optimizer->state_name ? optimizer->state_name(config, i) : optimizer->state_names[i];
}

enum zt_optimizer_id zt_optimizer_id(const struct zt_optimizer *optimizer) {
    int id = 0;
    while (zt_optimizers[id] && zt_optimizers[id] != optimizer)
        id++;
    return (enum zt_optimizer_id)id;
}
