#include "base/err.h"
#include "base/show.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define HINT "hint: "

/* Formats and escapes text: text from hostile files may contain anything, and one problem must remain one line. */
static void format_shown(char to[ZT_ERR_TEXT], const char *fmt, va_list ap) {
    char text[ZT_ERR_TEXT];
    vsnprintf(text, sizeof text, fmt, ap);
    zt_show(to, ZT_ERR_TEXT, text);
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

void zt_err_prepend(struct zt_err *err, int index, const char *prefix) {
    char old[ZT_ERR_TEXT];
    memcpy(old, err->text[index], sizeof old);
    size_t n = strlen(prefix), room = ZT_ERR_TEXT - 1 - n, m = strlen(old);
    if (m > room)
        m = room;
    memcpy(err->text[index], prefix, n);
    memcpy(err->text[index] + n, old, m);
    err->text[index][n + m] = 0;
}

bool zt_err_within(struct zt_err *err, int first, const char *fmt, ...) {
    char prefix[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    format_shown(prefix, fmt, ap);
    va_end(ap);
    size_t length = strlen(prefix);
    memcpy(prefix + (length < sizeof prefix - 3 ? length : sizeof prefix - 3), ": ", 3);
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
