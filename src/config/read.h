/* The state of reading a configuration: the tree of the files' values, and the key table. For the files of src/config
 * alone; the rest of the program uses struct zt_config. */
#ifndef ZT_CONFIG_READ_H
#define ZT_CONFIG_READ_H

#include "base/map.h"
#include "base/vec.h"
#include "config/config.h"
#include "config/json/node.h"
#include "config/table.h"

/* A problem of one value. Texts live in the config's arena. */
struct zt_reading_problem {
    int layer, line, column, order; /* it is reported in this order */
    const char *text, *hint;        /* NULL: no hint */
};

enum { ZT_CONFIG_PROBLEMS = 100 };

struct zt_reading {
    struct zt_config *config;
    struct zt_arena *arena;
    struct zt_err *err;
    ZT_VEC(struct zt_reading_problem) problems;
    int problem_count; /* of those that are not kept as well */
    struct zt_json_node *root;
    bool holes; /* values of the files are unknown: only what each key says by itself is checked */
    struct zt_key_table *table;
    struct zt_json_node *
        *node; /* by row: the valid value; NULL where absent, null or wrong, and below lists and free names */
    int *next; /* by row: the next row of the same key; -1: none */
    struct zt_map by_key; /* key -> first row of that key */
};

/* Adds the problem "FILE:LINE:COLUMN: key.path: what", or "--set key.path: what". Only the first
 * ZT_CONFIG_PROBLEMS keep their text, so that a hostile file gives no endless list. Returns false. */
bool zt_key_fail(struct zt_reading *r, const struct zt_json_node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the hint of the latest problem. */
void zt_key_hint(struct zt_reading *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Moves the problems to the error, in the order of files and lines; those of command-line options are the last. */
void zt_problems_report(struct zt_reading *r);
/* Appends a text of the arena to a list. */
void zt_texts_add(struct zt_arena *arena, struct zt_texts *texts, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
