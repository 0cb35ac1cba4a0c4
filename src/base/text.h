/* Text: a growing string, numbers in text, and the nearest word to a misspelt one. */
#ifndef ZT_BASE_TEXT_H
#define ZT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; `at` is NULL while empty, else 0-terminated. Free with zt_text_finish(). */
struct zt_text {
    char *at;
    size_t length, room;
};

void zt_text_add(struct zt_text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void zt_text_add_bytes(struct zt_text *text, const void *bytes, size_t count);
void zt_text_finish(struct zt_text *text);

/* Appends `count` bytes to the text in to[room]; where there is no room for all of it, its beginning goes. */
void zt_text_keep_end(char *to, size_t room, const char *bytes, size_t count);
/* A whole decimal number from -INT64_MAX to INT64_MAX: digits, a '-' before them, and nothing else; no locale. False:
 * another text, and *number is as it was. */
bool zt_text_number(const char *text, int64_t *number);

/* Edit distance (insert, delete, replace, swap of neighbours: 1 each), case ignored. */
int zt_edit_distance(const char *a, const char *b);

/* Whether `text` matches a shell pattern of '*' and '?' ('.' and '/' are ordinary characters). */
int zt_glob(const char *pattern, const char *text);
/* Whether `text` matches one of them. */
int zt_glob_any(const char *const *patterns, int count, const char *text);

/* "1.5 MB" style, 1 MB = 10^6 bytes, into `to` (at least 32 bytes); returns `to`. */
char *zt_format_bytes(char *to, double bytes);

#endif
