#include "optim/row.h"

#include <strings.h>

const struct zt_optimizer *const zt_optimizers[] = {
    &zt_optimizer_sgd,
    &zt_optimizer_adam,
    &zt_optimizer_adamw,
    &zt_optimizer_lamb,
    &zt_optimizer_lion,
    &zt_optimizer_adagrad,
    NULL,
};

const struct zt_optimizer *zt_optimizer_find(const char *type) {
    for (int i = 0; zt_optimizers[i]; i++)
        if (strcasecmp(zt_optimizers[i]->name, type) == 0)
            return zt_optimizers[i];
    return NULL;
}
