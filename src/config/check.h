/* What keys have to do with each other. */
#ifndef ZT_CONFIG_CHECK_H
#define ZT_CONFIG_CHECK_H

#include "config/read.h"

/* Conflicts and companions. */
void zt_config_conflicts(struct zt_reading *r);
/* Values that follow from others. */
void zt_config_derive(struct zt_reading *r, const struct zt_config_overrides *over);

#endif
