/* Other names of keys: deprecated ones of DeepSpeed, and the blocks that may stand in the ztrain block. */
#ifndef ZT_CONFIG_DEPRECATED_H
#define ZT_CONFIG_DEPRECATED_H

#include "config/read.h"

/* Renames the deprecated keys of one source's tree to the current ones, and adds a note for each; a deprecated key
 * beside its current one is an error. Moves ztrain.optimizer and ztrain.scheduler to the top level. Messages keep the
 * user's spelling. */
void zt_config_modernise(struct zt_reading *r, struct zt_json_node *root);

#endif
