#include "base/err.h"
#include "base/show.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define HINT "hint: "

static bool continues(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Copies text; where it does not fit, "..." stands for its middle: a message begins with where, and ends with what is
 * wrong. Characters of UTF-8 stay whole. `room` is at least 8. */
static void shorten(char *to, size_t room, const char *text) {
    const size_t n = strlen(text);
    if (n < room) {
        memcpy(to, text, n + 1);
        return;
    }
    size_t head = (room - 4) / 2, tail = n - (room - 4 - head);
    while (head && continues(text[head]))
        head--;
    while (continues(text[tail]))
        tail++;
    memcpy(to, text, head);
    memcpy(to + head, "...", 3);
    memcpy(to + head + 3, text + tail, n - tail + 1);
}

/* Formats and escapes text: text from hostile files may contain anything, and one problem must remain one line. Without
 * memory for a long one its end is missing. */
static void format_shown(char to[ZT_ERR_TEXT], const char *fmt, va_list ap) {
    char text[ZT_ERR_TEXT], shown[ZT_SHOWN_MOST * ZT_ERR_TEXT];
    va_list again;
    va_copy(again, ap);
    const int length = vsnprintf(text, sizeof text, fmt, ap);
    char *all = length >= (int)sizeof text ? malloc((size_t)length + 1) : NULL;
    if (all) {
        vsnprintf(all, (size_t)length + 1, fmt, again);
        shorten(text, sizeof text, all);
    }
    va_end(again);
    free(all);
    zt_show(shown, sizeof shown, text);
    shorten(to, ZT_ERR_TEXT, shown);
}

/* Appends a line to `rest`. Without memory for it the error keeps nothing more, and the rest is only counted. */
static void append_line(struct zt_err *err, const char *mark, const char *text) {
    size_t length = err->rest ? strlen(err->rest) : 0, room = strlen(mark) + strlen(text) + 2;
    char *more = realloc(err->rest, length + room);
    if (!more)
        return;
    err->rest = more;
    snprintf(more + length, room, "%s%s\n", mark, text);
}

bool zt_fail(struct zt_err *err, enum zt_exit code, const char *fmt, ...) {
    char text[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    if (err->count == 0)
        err->code = code;
    if (err->count < ZT_ERR_LINES) {
        format_shown(err->text[err->count], fmt, ap);
        err->hint[err->count][0] = 0;
    } else if (err->keeps_all) {
        format_shown(text, fmt, ap);
        append_line(err, "", text);
    }
    va_end(ap);
    err->count++;
    return false;
}

bool zt_hint(struct zt_err *err, const char *fmt, ...) {
    char text[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    if (err->count > 0 && err->count <= ZT_ERR_LINES)
        format_shown(err->hint[err->count - 1], fmt, ap);
    else if (err->count > 0 && err->keeps_all) {
        format_shown(text, fmt, ap);
        append_line(err, HINT, text);
    }
    va_end(ap);
    return false;
}

/* Of two long texts each has half of the room; the prefix gives way to a text that needs less. */
void zt_err_prepend(struct zt_err *err, int index, const char *prefix) {
    char old[ZT_ERR_TEXT];
    memcpy(old, err->text[index], sizeof old);
    const size_t room = ZT_ERR_TEXT - 1, half = room / 2, m = strlen(old);
    shorten(err->text[index], (m < half ? room - m : half) + 1, prefix);
    const size_t n = strlen(err->text[index]);
    shorten(err->text[index] + n, ZT_ERR_TEXT - n, old);
}

bool zt_err_within(struct zt_err *err, int first, const char *fmt, ...) {
    char text[ZT_ERR_TEXT], prefix[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    format_shown(text, fmt, ap);
    va_end(ap);
    shorten(prefix, sizeof prefix - 2, text);
    strcat(prefix, ": ");
    for (int i = first; i < err->count && i < ZT_ERR_LINES; i++)
        zt_err_prepend(err, i, prefix);
    return false;
}

/* Prints the lines of `rest` and returns how many problems they are. */
static int print_rest(const struct zt_err *err, FILE *to) {
    const char *separator = err->place[0] ? ": " : "";
    int problems = 0;
    for (const char *line = err->rest; line && *line;) {
        const char *end = strchr(line, '\n');
        bool hint = strncmp(line, HINT, strlen(HINT)) == 0;
        problems += !hint;
        if (!hint)
            fprintf(to, ZT_ERR_MARK "%s%s", err->place, separator);
        fprintf(to, "%.*s\n", (int)(end - line), line);
        line = end + 1;
    }
    return problems;
}

void zt_err_print(const struct zt_err *err, FILE *to) {
    int shown = err->count < ZT_ERR_LINES ? err->count : ZT_ERR_LINES;
    for (int i = 0; i < shown; i++) {
        fprintf(to, ZT_ERR_MARK "%s%s%s\n", err->place, err->place[0] ? ": " : "", err->text[i]);
        if (err->hint[i][0])
            fprintf(to, HINT "%s\n", err->hint[i]);
    }
    shown += print_rest(err, to);
    if (err->count > shown)
        fprintf(to, ZT_ERR_MARK "and %d more\n", err->count - shown);
}

void zt_err_finish(struct zt_err *err) {
    free(err->rest);
    err->rest = NULL;
}
