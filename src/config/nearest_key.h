/* Suggestions for unknown keys and values of a config. */
#ifndef ZT_CONFIG_NEAREST_KEY_H
#define ZT_CONFIG_NEAREST_KEY_H

#include "config/table.h"

/* The choice that `name` most resembles; NULL: none differs by a small edit distance alone. */
const char *zt_key_nearest_choice(const struct zt_key_row *row, const char *name);
/* The key that an unknown `name` in the object `parent` ("" at the top) means, of those that exist for the chosen
 * types: the one that other programs call so, or the key of `parent` from which it differs by a small edit distance.
 * NULL: none. */
const char *zt_key_nearest(const struct zt_key_table *table, const char *parent, const char *name);
/* DeepSpeed's key that works and has the last part `name`, where there is one such key alone; NULL: none, or several.
 */
const char *zt_key_home(const struct zt_key_table *table, const char *name);
#endif
