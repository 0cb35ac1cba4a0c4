/* The tree against the table: unknown keys, types, ranges, stored values. */
#ifndef ZT_CONFIG_KEYS_H
#define ZT_CONFIG_KEYS_H

#include "config/read.h"

/* Finds the row of every value, checks and stores it. */
void zt_keys_read(struct zt_reading *r);
/* What is refused for good (`later` false) or not there yet (true); what has no effect; what "auto" became. */
void zt_keys_refuse(struct zt_reading *r, bool later);
void zt_keys_note(struct zt_reading *r);
/* The valid value of a key, NULL where there is none; and its value or default. */
struct zt_node *zt_keys_node(const struct zt_reading *r, const char *key);
bool zt_keys_truth(const struct zt_reading *r, const char *key);
double zt_keys_number(const struct zt_reading *r, const char *key);
bool zt_keys_exist(const struct zt_reading *r, const char *key);       /* for the chosen types */
const char *zt_keys_text(const struct zt_reading *r, const char *key); /* "" where there is none */
/* Whether activation_checkpointing is on: it says so, or one of its flags is set and `enabled` does not say no. */
bool zt_keys_checkpointing(const struct zt_reading *r);

#endif
