/* The configuration while it is read: the file's values as a tree, and the tree held against the key table.
 * For src/config*.c alone; the rest of the program sees struct zt_config. */
#ifndef ZT_CONFIG_READ_H
#define ZT_CONFIG_READ_H

#include "base/map.h"
#include "config/config.h"
#include "config/node.h"
#include "config/table.h"

struct zt_reading {
    struct zt_config *config;
    struct zt_arena *arena;
    struct zt_err *err;
    const char *file;
    struct zt_node *root;
    /* The table, and the valid value found for each row: NULL where absent, null or wrong. Values in lists of objects
     * and under free names are not here. */
    const struct zt_key_row **row;
    struct zt_node **node;
    int count;
    struct zt_map by_key;              /* key -> first row of that key */
    unsigned types;                    /* bits of optimizer.type and scheduler.type; all of a kind where not known */
    const char *optimizer, *scheduler; /* names for messages; NULL: none given */
    bool has_optimizer, has_scheduler; /* a known type was given: its parameters have defaults */
};

/* node.c */
/* Reports "FILE:LINE:COLUMN: key.path: what", or "--set key.path: what". Returns false. */
bool zt_key_fail(struct zt_reading *r, const struct zt_node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends a text of the arena to a list. */
void zt_texts_add(struct zt_arena *arena, struct zt_texts *texts, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* set.c: lays the command line over the tree. */
void zt_config_overlay(struct zt_reading *r, const struct zt_config_overrides *over);

/* deprecated.c: turns deprecated keys into today's. */
void zt_config_modernise(struct zt_reading *r);

/* value.c: a value against its row. Checks type and range, turns "auto", texts that mean booleans and other
 * spellings into the value itself. False with an error. */
bool zt_value_check(struct zt_reading *r, struct zt_node *node, const struct zt_key_row *row);
/* Stores a checked value, or the row's default, in the config. */
void zt_value_store(struct zt_reading *r, const struct zt_node *node, const struct zt_key_row *row);
void zt_value_default(struct zt_reading *r, const struct zt_key_row *row);
/* Whether the value is the row's default or `off`, or says nothing. */
bool zt_value_neutral(const struct zt_node *node, const struct zt_key_row *row);

/* keys.c: the tree against the table: unknown keys, types, ranges, stored values. */
void zt_keys_read(struct zt_reading *r);
/* What is refused for good (`later` false) or not there yet (true); what has no effect; what "auto" became. */
void zt_keys_refuse(struct zt_reading *r, bool later);
void zt_keys_note(struct zt_reading *r);
/* The valid value of a key, NULL where there is none; and its value or default. */
struct zt_node *zt_keys_node(const struct zt_reading *r, const char *key);
bool zt_keys_truth(const struct zt_reading *r, const char *key);
double zt_keys_number(const struct zt_reading *r, const char *key);
const char *zt_keys_text(const struct zt_reading *r, const char *key); /* "" where there is none */
/* Whether activation_checkpointing is on: it says so, or one of its flags is set and `enabled` does not say no. */
bool zt_keys_checkpointing(const struct zt_reading *r);

/* check.c: conflicts, companions, and values that follow from others. */
void zt_config_conflicts(struct zt_reading *r);
void zt_config_derive(struct zt_reading *r, const struct zt_config_overrides *over);

/* batch.c: ranks, stages and the three batch keys (reference/deepspeed.md section 2). */
void zt_config_batch(struct zt_reading *r, const struct zt_config_overrides *over);

#endif
