/* Text: growing strings, parsing of numbers, and search for similar words. */
#ifndef ZT_BASE_TEXT_H
#define ZT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. `at` is NULL while empty, otherwise 0-terminated. Free with zt_text_finish(). */
struct zt_text {
    char *at;
    size_t length, room;
};
/* Append formatted text, or `count` bytes. zt_text_finish() frees the text. */
void zt_text_add(struct zt_text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void zt_text_add_bytes(struct zt_text *text, const void *bytes, size_t count);
void zt_text_finish(struct zt_text *text);

/* Appends `count` bytes to the text in to[room]. If there is not enough room, the beginning of the text is dropped. */
void zt_text_keep_end(char *to, size_t room, const char *bytes, size_t count);
/* Parses a decimal integer from -INT64_MAX to INT64_MAX: digits with an optional leading '-', independent of the
 * locale. On failure returns false and leaves *number unchanged. */
bool zt_text_number(const char *text, int64_t *number);

/* Whether `text` begins or ends with `with`, byte by byte; true for an empty `with`. */
bool zt_text_begins(const char *text, const char *with);
bool zt_text_ends(const char *text, const char *with);

/* Case-insensitive edit distance; insertion, deletion, replacement and swap of neighbours cost 1 each. */
int zt_edit_distance(const char *a, const char *b);

/* Whether `text` matches a shell pattern of '*' and '?'; '.' and '/' are ordinary characters. */
int zt_glob(const char *pattern, const char *text);
/* Whether `text` matches at least one of the patterns. */
int zt_glob_any(const char *const *patterns, int count, const char *text);

/* The ending of a noun behind the number `count`. */
static inline const char *zt_plural(int64_t count) {
    return count == 1 ? "" : "s";
}
/* Formats bytes as "1.5 MB" (1 MB = 10^6 bytes) into `to`, which has at least 32 bytes; returns `to`. */
char *zt_format_bytes(char *to, double bytes);
enum { ZT_NUMBER_TEXT = 40 };
/* Formats the shortest decimal that reads back to the same double; returns `to`. */
char *zt_format_number(char to[ZT_NUMBER_TEXT], double value);

#endif
