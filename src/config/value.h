/* A value against its row of the table. */
#ifndef ZT_CONFIG_VALUE_H
#define ZT_CONFIG_VALUE_H

#include "config/read.h"

/* Checks type and range, turns "auto", texts that mean booleans and other spellings into the value itself. False with
 * an error. */
bool zt_value_check(struct zt_reading *r, struct zt_node *node, const struct zt_key_row *row);
/* Stores a checked value, or the row's default, in the config. */
void zt_value_store(struct zt_reading *r, const struct zt_node *node, const struct zt_key_row *row);
void zt_value_default(struct zt_reading *r, const struct zt_key_row *row);
/* Whether the value is the row's default or `off`, or says nothing. */
bool zt_value_neutral(const struct zt_node *node, const struct zt_key_row *row);

#endif
