/* Rules that involve several keys. */
#ifndef ZT_CONFIG_CHECK_H
#define ZT_CONFIG_CHECK_H

#include "config/read.h"

/* Reports keys that exclude one another, and keys whose required companion is missing. */
void zt_config_conflicts(struct zt_reading *r);
/* Sets the values that depend on other keys, and adds notes. For a configuration without problems. */
void zt_config_derive(struct zt_reading *r, const struct zt_config_overrides *over);

#endif
