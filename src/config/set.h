/* Command-line options that override the file. */
#ifndef ZT_CONFIG_SET_H
#define ZT_CONFIG_SET_H

#include "config/read.h"

/* Adds the options to the tree as values, in place of the file's. */
void zt_config_overlay(struct zt_reading *r, const struct zt_config_overrides *over);

#endif
