/* Refusal of values: those of features that are refused for good, and those of features that are not supported yet. */
#ifndef ZT_CONFIG_REFUSE_H
#define ZT_CONFIG_REFUSE_H

#include "config/read.h"

/* Reports the values that are refused. Call it after zt_keys_read(). */
void zt_keys_refuse(struct zt_reading *r);

#endif
