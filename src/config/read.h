/* The configuration while it is read: the file's values as a tree, and the tree held against the key table. For the
 * files of src/config alone; the rest of the program sees struct zt_config. */
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

/* Reports "FILE:LINE:COLUMN: key.path: what", or "--set key.path: what". Returns false. */
bool zt_key_fail(struct zt_reading *r, const struct zt_node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends a text of the arena to a list. */
void zt_texts_add(struct zt_arena *arena, struct zt_texts *texts, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
