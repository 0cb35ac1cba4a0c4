/* Keys of other times. */
#ifndef ZT_CONFIG_DEPRECATED_H
#define ZT_CONFIG_DEPRECATED_H

#include "config/read.h"

/* Turns deprecated keys into today's. */
void zt_config_modernise(struct zt_reading *r);

#endif
