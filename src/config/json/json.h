/* Reads JSON with comments and trailing commas into a tree of values with line and column. Every byte is checked: apart
 * from these two extensions the text must be plain JSON, with texts in UTF-8 without NUL.
 *
 * The escapes \udc80 to \udcff, halves of pairs that are no characters alone, mean the bytes 80 to ff, which are not
 * UTF-8: https://peps.python.org/pep-0383. */
#ifndef ZT_CONFIG_JSON_H
#define ZT_CONFIG_JSON_H

#include "config/json/node.h"

#include <stddef.h>

enum {
    ZT_JSON_BYTE_ESCAPE = 0xdc00, /* and the byte */
    ZT_JSON_BYTES = 16 << 20,     /* largest file */
    ZT_JSON_DEPTH = 64,           /* deepest nesting: the reader recurses */
    ZT_JSON_VALUES = 100000,      /* most values: a node costs memory, a config has hundreds */
    ZT_JSON_KEY = 128,            /* longest key in bytes */
    ZT_JSON_NUMBER = 60,          /* longest number in bytes */
    ZT_JSON_PROBLEMS = 100,       /* most problems of a text that are reported one by one */
};

struct zt_json_text {
    const char *file; /* its name in messages */
    const unsigned char *at;
    size_t size;
    const struct zt_config_source *source; /* NULL: it is from a command-line option */
    const char *option;                    /* that option; NULL: it is from a file */
};

/* The tree, in the arena. NULL and an error "FILE:LINE:COLUMN: ..." where the text is not JSON. Duplicate keys
 * (comments apart), numbers that are too large and texts without quotes are errors as well, but a file with these still
 * gives a tree, so that the caller can report its other problems; `holes` of the root says that values are unknown. */
struct zt_json_node *zt_json_read(const struct zt_json_text *text, struct zt_arena *arena, struct zt_err *err);

/* Makes a text that is exactly one JSON number ("8", "5e-5") a number; false: the node is something else. */
bool zt_json_unquote(struct zt_json_node *node);

/* Whether a key is a comment: it begins with "_" or "//". */
bool zt_json_is_comment(const char *key);

#endif
