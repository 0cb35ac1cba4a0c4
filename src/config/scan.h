/* The pass before cJSON: JSON with comments and trailing commas, checked to the last byte.
 *
 * It leaves a copy of the text in which comments and trailing commas are blanks, and where every value stands, in the
 * order in which the values begin (the root first). cJSON keeps that order, so that the n-th value of its tree is mark
 * n. What passes here is plain JSON that cJSON takes: numbers it can hold, texts without NUL, nesting within its own
 * limit. */
#ifndef ZT_CONFIG_SCAN_H
#define ZT_CONFIG_SCAN_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    ZT_SCAN_BYTES = 16 << 20, /* largest file */
    ZT_SCAN_DEPTH = 64,       /* deepest nesting; cJSON recurses */
    ZT_SCAN_VALUES = 100000,  /* most values: a node costs memory, a config has hundreds */
    ZT_SCAN_KEY = 128,        /* longest key in bytes */
    ZT_SCAN_NUMBER = 60,      /* longest number in bytes; cJSON reads 63 */
};

struct zt_scan_mark {
    int line, column;  /* of the key in an object, else of the value; from 1, columns in characters */
    size_t begin, end; /* bytes of the value */
};

struct zt_scan {
    char *clean; /* plain JSON, as many bytes as the text, 0-terminated; in the arena */
    struct zt_scan_mark *mark;
    int count;
};

/* Problems are reported as "FILE:LINE:COLUMN: ...". */
bool zt_config_scan(struct zt_scan *scan, struct zt_arena *arena, const char *file, const unsigned char *text,
                    size_t size, struct zt_err *err);

#endif
