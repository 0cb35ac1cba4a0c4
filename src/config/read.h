/* The state of reading a configuration: the tree of the file's values, and the key table. For the files of src/config
 * alone; the rest of the program uses struct zt_config. */
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
    struct zt_key_table *table;
    struct zt_node *
        *node; /* by row: the valid value; NULL where absent, null or wrong, and below lists and free names */
    int *next; /* by row: the next row of the same key; -1: none */
    struct zt_map by_key; /* key -> first row of that key */
};

/* Reports "FILE:LINE:COLUMN: key.path: what", or "--set key.path: what". Returns false. */
bool zt_key_fail(struct zt_reading *r, const struct zt_node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends a text of the arena to a list. */
void zt_texts_add(struct zt_arena *arena, struct zt_texts *texts, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
