/* The batch. */
#ifndef ZT_CONFIG_BATCH_H
#define ZT_CONFIG_BATCH_H

#include "config/read.h"

/* Ranks, stages and the three batch keys (reference/deepspeed.md section 2). */
void zt_config_batch(struct zt_reading *r, const struct zt_config_overrides *over);

#endif
