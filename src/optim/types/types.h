/* The optimizers of the program, by number and by name. */
#ifndef ZT_OPTIM_TYPES_TYPES_H
#define ZT_OPTIM_TYPES_TYPES_H

#include "optim/optim.h"
#include "optim/table.h"

/* The row for a type name (case-insensitive), NULL where there is none. */
const struct zt_optimizer *zt_optimizer_find(const char *type);
/* The name of state `i` of those that the configuration uses. */
const char *zt_optimizer_state(const struct zt_optimizer *optimizer, const struct zt_optimizer_config *config, int i);
/* The number of a row in the table: the CUDA module knows its kernels by it. */
enum zt_optimizer_id zt_optimizer_id(const struct zt_optimizer *optimizer);
/* All rows by number, and their types for the catalog of the configuration; both end with NULL. */
extern const struct zt_optimizer *const zt_optimizers[];
extern const struct zt_key_owner *const zt_optimizer_types[];

#endif
