/* The tree of a configuration's values while it is read. */
#ifndef ZT_CONFIG_NODE_H
#define ZT_CONFIG_NODE_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zt_node_kind { ZT_NODE_NULL, ZT_NODE_BOOL, ZT_NODE_NUMBER, ZT_NODE_TEXT, ZT_NODE_LIST, ZT_NODE_OBJECT };

/* One value. Lives in the config's arena. */
struct zt_node {
    enum zt_node_kind kind;
    const char *key;    /* NULL: the root or an item of a list */
    int index;          /* place among its parent's children */
    int line, column;   /* of the key, or of a list's item */
    const char *option; /* the command-line option that gave it: "--set key.path", "--seed"; NULL: the file did */
    bool truth;
    double number;
    bool whole; /* `integer` is the exact value */
    int64_t integer;
    const char *text; /* of a text; of a number from a file or --set, its characters */
    bool automatic;   /* was "auto": the value is the one that the row states */
    bool ignored;     /* without effect, and listed as such already */
    struct zt_node *parent, *first, *next;
};

struct zt_node *zt_node_create(struct zt_arena *arena, enum zt_node_kind kind, const char *key, const char *option);
struct zt_node *zt_node_child(const struct zt_node *parent, const char *key);
struct zt_node *zt_node_find(struct zt_node *root, const char *path); /* "a.b.c"; NULL: not there */
void zt_node_append(struct zt_node *parent, struct zt_node *child);
void zt_node_remove(struct zt_node *child);
/* "a.b[2].c" into `to` of `room` bytes, cut where it does not fit. */
char *zt_node_path(const struct zt_node *node, char *to, size_t room);
/* The value as JSON, cut where it is long, into `to` of `room` bytes. */
char *zt_node_show(const struct zt_node *node, char *to, size_t room);
/* The origin of a value, "line 3" or "--set key.path", into `to` (at least 64 bytes). */
char *zt_node_origin(const struct zt_node *node, char *to);

#endif
