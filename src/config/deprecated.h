/* Deprecated keys of DeepSpeed. */
#ifndef ZT_CONFIG_DEPRECATED_H
#define ZT_CONFIG_DEPRECATED_H

#include "config/read.h"

/* Renames deprecated keys of the tree to the current ones, and adds a note for each. A deprecated key beside its
 * current one is an error, unless one of the two is from the command line, which wins. */
void zt_config_modernise(struct zt_reading *r);

#endif
