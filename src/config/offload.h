/* Which keys of offload a configuration reads. */
#ifndef ZT_CONFIG_OFFLOAD_H
#define ZT_CONFIG_OFFLOAD_H

#include "config/config.h"

/* Whether the object takes effect: its device is not "none", and parameters have ZeRO stage 3. */
bool zt_offload_on(const struct zt_config *config, const struct zt_offload_config *object);
/* Whether the object takes effect and its device is "nvme". */
bool zt_offload_nvme(const struct zt_config *config, const struct zt_offload_config *object);
/* Returns why no part of this configuration reads the key (of offload_param, offload_optimizer, aio, or
 * sub_group_size); NULL if one does, and for all other keys. */
const char *zt_offload_unread(const struct zt_config *config, const char *key);

#endif
