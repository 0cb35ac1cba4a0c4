#include "base/text.h"
#include "base/arena.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(struct zt_text *text, size_t more) {
    if (text->length + more + 1 <= text->room)
        return;
    text->room = 2 * (text->length + more + 1);
    text->at = zt_realloc(text->at, text->room);
}

void zt_text_add_bytes(struct zt_text *text, const void *bytes, size_t count) {
    reserve(text, count);
    if (count)
        memcpy(text->at + text->length, bytes, count);
    text->length += count;
    text->at[text->length] = 0;
}

void zt_text_add(struct zt_text *text, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        reserve(text, (size_t)n);
        vsnprintf(text->at + text->length, (size_t)n + 1, fmt, again);
        text->length += (size_t)n;
    }
    va_end(again);
}

void zt_text_finish(struct zt_text *text) {
    free(text->at);
    *text = (struct zt_text){ 0 };
}

void zt_text_keep_end(char *to, size_t room, const char *bytes, size_t count) {
    size_t most = room - 1, have = strlen(to);
    if (count > most) {
        bytes += count - most;
        count = most;
    }
    size_t drop = have + count > most ? have + count - most : 0;
    memmove(to, to + drop, have - drop);
    memcpy(to + have - drop, bytes, count);
    to[have - drop + count] = 0;
}

bool zt_text_begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

bool zt_text_ends(const char *text, const char *with) {
    const size_t length = strlen(text), tail = strlen(with);
    return length >= tail && strcmp(text + length - tail, with) == 0;
}

bool zt_text_number(const char *text, int64_t *number) {
    bool negative = text[0] == '-';
    const char *p = text + negative;
    int64_t value = 0;
    if (!*p)
        return false;
    for (; *p; p++)
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *p - '0', &value))
            return false;
    *number = negative ? -value : value;
    return true;
}

int zt_edit_distance(const char *a, const char *b) {
    enum { LONGEST = 64 };
    int n = (int)strnlen(a, LONGEST), m = (int)strnlen(b, LONGEST);
    int row[LONGEST + 1][LONGEST + 1]; /* row[i][j]: distance of the first i letters of a to the first j of b */
    for (int i = 0; i <= n; i++)
        row[i][0] = i;
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        for (int j = 1; j <= m; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            int best = row[i - 1][j - 1] + (x != y);
            if (row[i - 1][j] + 1 < best)
                best = row[i - 1][j] + 1;
            if (row[i][j - 1] + 1 < best)
                best = row[i][j - 1] + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]) &&
                row[i - 2][j - 2] + 1 < best)
                best = row[i - 2][j - 2] + 1;
            row[i][j] = best;
        }
    }
    return row[n][m];
}

int zt_glob(const char *pattern, const char *text) {
    const char *star = NULL,
               *back = NULL; /* position to resume after a mismatch: the last '*' consumes one more character */
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            back = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++back;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

int zt_glob_any(const char *const *patterns, int count, const char *text) {
    for (int i = 0; i < count; i++)
        if (zt_glob(patterns[i], text))
            return 1;
    return 0;
}

char *zt_format_bytes(char *to, double bytes) {
    static const char *const unit[] = { "B", "KB", "MB", "GB", "TB", "PB" };
    int u = 0;
    while (bytes >= 999.5 && u < 5) {
        bytes /= 1000;
        u++;
    }
    snprintf(to, 32, u && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, unit[u]);
    return to;
}

char *zt_format_number(char to[ZT_NUMBER_TEXT], double value) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(to, ZT_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(to, NULL) == value)
            break;
    }
    return to;
}
