/* Holds the tree against the key table: finds unknown keys, wrong types and values out of range, and stores values. */
#ifndef ZT_CONFIG_KEYS_H
#define ZT_CONFIG_KEYS_H

#include "config/read.h"

/* Finds the row of every value, checks and stores it. */
void zt_keys_read(struct zt_reading *r);
/* Lists the keys without effect and the values that "auto" became. */
void zt_keys_note(struct zt_reading *r);
/* The valid value of a key, NULL where there is none. The functions below it give the value, or the default. */
struct zt_json_node *zt_keys_node(const struct zt_reading *r, const char *key);
bool zt_keys_truth(const struct zt_reading *r, const char *key);
double zt_keys_number(const struct zt_reading *r, const char *key);
bool zt_keys_exist(const struct zt_reading *r, const char *key);       /* for the chosen types */
const char *zt_keys_text(const struct zt_reading *r, const char *key); /* "" where there is none */
/* Whether activation_checkpointing is on: `enabled` is true, or it is absent and one of the other flags is set. */
bool zt_keys_checkpointing(const struct zt_reading *r);

#endif
