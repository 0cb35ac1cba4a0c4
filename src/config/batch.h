/* The batch arithmetic of DeepSpeed: train_batch = micro_batch * accumulation * data_parallel. */
#ifndef ZT_CONFIG_BATCH_H
#define ZT_CONFIG_BATCH_H

#include "config/read.h"

/* Sets ranks, data_parallel and the three batch sizes in the config; missing ones are derived. Reports batch sizes that
 * do not multiply, and ranks that stages do not divide. */
void zt_config_batch(struct zt_reading *r, const struct zt_config_overrides *over);

#endif
