/* The tree of a configuration's values while it is read. */
#ifndef ZT_CONFIG_NODE_H
#define ZT_CONFIG_NODE_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A configuration file. */
struct zt_config_source {
    const char *file, *folder; /* paths in the file are relative to `folder` */
    int layer;                 /* the later file has the higher number */
    bool several;              /* there are other files, so that messages name this one */
};

enum zt_json_node_kind {
    ZT_JSON_NODE_NULL,
    ZT_JSON_NODE_BOOL,
    ZT_JSON_NODE_NUMBER,
    ZT_JSON_NODE_TEXT,
    ZT_JSON_NODE_LIST,
    ZT_JSON_NODE_OBJECT
};

/* One value. Lives in the config's arena. */
struct zt_json_node {
    enum zt_json_node_kind kind;
    const char *key;                       /* NULL: the root or an item of a list */
    int index;                             /* place among its parent's children */
    int line, column;                      /* of the key, or of a list's item */
    const struct zt_config_source *source; /* of a value from a file */
    const char *option;                    /* what gave another value: "--set key.path", "--seed", "default" */
    const char *spelled; /* the path that the user wrote, where another one replaced it; NULL: the path of the tree */
    bool replaces;       /* --set: the value takes the place of the file's, an object too */
    bool truth;
    double number;
    bool whole; /* `integer` is the exact value */
    int64_t integer;
    const char *text;     /* of a text; of a number from a file or --set, its characters */
    const char *not_json; /* --set: why the text is not JSON, "LINE:COLUMN: ...", where it looks like it; NULL: no */
    bool automatic;       /* was "auto": the value is the one that the row states */
    const char *rule;     /* automatic: its rule, where it is not that of the row; listed already */
    bool holes;           /* a file's root: texts without quotes are null in the tree, as those of a template */
    bool ignored;         /* without effect, and listed as such already */
    struct zt_json_node *parent, *first, *next;
};

/* Creates a value in the arena, without parent or position in a file. key: NULL for elements of lists. option: the
 * command-line option that gives the value, as `option` above. Both texts are borrowed. */
struct zt_json_node *zt_json_node_create(struct zt_arena *arena, enum zt_json_node_kind kind, const char *key,
                                         const char *option);
/* A value from the same place as `of`. */
struct zt_json_node *zt_json_node_beside(struct zt_arena *arena, enum zt_json_node_kind kind, const char *key,
                                         const struct zt_json_node *of);
struct zt_json_node *zt_json_node_child(const struct zt_json_node *parent, const char *key);
struct zt_json_node *zt_json_node_find(const struct zt_json_node *root,
                                       const char *path); /* "a.b.c"; NULL: not there */
void zt_json_node_append(struct zt_json_node *parent, struct zt_json_node *child);
void zt_json_node_remove(struct zt_json_node *child);
/* The layer of the source; command-line options are above all files. */
int zt_json_node_layer(const struct zt_json_node *node);
/* Keeps the path of a node and of all nodes below it in `spelled`, before the node gets another key or parent. */
void zt_json_node_keep_spelling(struct zt_json_node *node, struct zt_arena *arena);
/* "a.b[2].c" as the user spelled it into `to` of `room` bytes, cut where it does not fit. */
char *zt_json_node_path(const struct zt_json_node *node, char *to, size_t room);
/* The value as JSON, cut where it is long, into `to` of `room` bytes. */
char *zt_json_node_show(const struct zt_json_node *node, char *to, size_t room);
enum { ZT_JSON_ORIGIN = 288 }; /* a file name and a line */
/* The origin of a value, "line 3", "ds.json line 3" or "--set key.path", into `to` (ZT_JSON_ORIGIN bytes). */
char *zt_json_node_origin(const struct zt_json_node *node, char *to);

#endif
