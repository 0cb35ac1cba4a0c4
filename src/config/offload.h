/* Keys of offload: validity, and which of them a configuration reads. */
#ifndef ZT_CONFIG_OFFLOAD_H
#define ZT_CONFIG_OFFLOAD_H

#include "config/config.h"

/* The least ZeRO stage at which what the object states is valid: 3 for parameters, files, and a part of the states,
 * else 1; 0: its device is "none". */
int zt_offload_least_stage(const struct zt_config *config, const struct zt_offload_config *object);
/* Whether the object takes effect: its device is not "none", and the ZeRO stage has what it offloads, or is chosen
 * later (plan_auto). */
bool zt_offload_on(const struct zt_config *config, const struct zt_offload_config *object);
/* Whether the object takes effect and its device is "nvme". */
bool zt_offload_nvme(const struct zt_config *config, const struct zt_offload_config *object);
/* Returns why no part of this configuration reads the key (of offload_param, offload_optimizer, aio, or
 * sub_group_size); NULL if one does, and for all other keys. */
const char *zt_offload_unread(const struct zt_config *config, const char *key);
/* Lists the objects that the ZeRO stage which was chosen automatically does not have as without effect. */
void zt_offload_note_chosen(struct zt_config *config);

#endif
