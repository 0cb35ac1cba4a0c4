/* Checks a value against its row of the key table, and stores it in the configuration. */
#ifndef ZT_CONFIG_VALUE_H
#define ZT_CONFIG_VALUE_H

#include "config/read.h"

/* Checks type and range. Replaces "auto", texts that mean booleans, and other spellings by the value itself. False with
 * an error. */
bool zt_value_check(struct zt_reading *r, struct zt_json_node *node, const struct zt_key_row *row);
/* The boolean that a boolean, a number or a text in pydantic's words means: 1 or 0; -1: none. */
int zt_value_truth(const struct zt_json_node *node);
/* Store a checked value, the value that a text of the table means, or the row's default. Keys without a place store
 * nothing. */
void zt_value_store(struct zt_reading *r, const struct zt_json_node *node, const struct zt_key_row *row);
void zt_value_set(struct zt_reading *r, const struct zt_key_row *row, const char *text);
void zt_value_default(struct zt_reading *r, const struct zt_key_row *row);
/* Whether a boolean, number or text is the value that `text` of the table means. */
bool zt_value_is(const struct zt_json_node *node, const char *text);
/* Whether the value is the row's default or `off`, null, or an object or list that asks for nothing. */
bool zt_value_neutral(const struct zt_json_node *node, const struct zt_key_row *row);

#endif
