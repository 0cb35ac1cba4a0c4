/* Command-line options that override the file. */
#ifndef ZT_CONFIG_SET_H
#define ZT_CONFIG_SET_H

#include "config/read.h"

/* Lays the options over the files' tree as values. */
void zt_config_lay_options(struct zt_reading *r, const struct zt_config_overrides *over);

#endif
