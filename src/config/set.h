/* The command line over the file. */
#ifndef ZT_CONFIG_SET_H
#define ZT_CONFIG_SET_H

#include "config/read.h"

/* Lays the options over the tree, each as a value of it. */
void zt_config_overlay(struct zt_reading *r, const struct zt_config_overrides *over);

#endif
