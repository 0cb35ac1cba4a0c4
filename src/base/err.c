#include "base/err.h"
#include "base/show.h"

#include <stdarg.h>
#include <string.h>

/* Formats and escapes text: text from hostile files may contain anything, and one problem must remain one line. */
static void format_shown(char to[ZT_ERR_TEXT], const char *fmt, va_list ap) {
    char text[ZT_ERR_TEXT];
    vsnprintf(text, sizeof text, fmt, ap);
    zt_show(to, ZT_ERR_TEXT, text);
}

bool zt_fail(struct zt_err *err, enum zt_exit code, const char *fmt, ...) {
    if (err->count == 0)
        err->code = code;
    if (err->count < ZT_ERR_LINES) {
        va_list ap;
        va_start(ap, fmt);
        format_shown(err->text[err->count], fmt, ap);
        va_end(ap);
        err->hint[err->count][0] = 0;
    }
    err->count++;
    return false;
}

bool zt_hint(struct zt_err *err, const char *fmt, ...) {
    if (err->count < 1 || err->count > ZT_ERR_LINES)
        return false;
    va_list ap;
    va_start(ap, fmt);
    format_shown(err->hint[err->count - 1], fmt, ap);
    va_end(ap);
    return false;
}

bool zt_err_within(struct zt_err *err, int first, const char *fmt, ...) {
    char prefix[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    format_shown(prefix, fmt, ap);
    va_end(ap);
    size_t length = strlen(prefix);
    memcpy(prefix + (length < sizeof prefix - 3 ? length : sizeof prefix - 3), ": ", 3);
    for (int i = first; i < err->count && i < ZT_ERR_LINES; i++) {
        char old[ZT_ERR_TEXT];
        memcpy(old, err->text[i], sizeof old);
        size_t n = strlen(prefix), room = ZT_ERR_TEXT - 1 - n, m = strlen(old);
        if (m > room)
            m = room;
        memcpy(err->text[i], prefix, n);
        memcpy(err->text[i] + n, old, m);
        err->text[i][n + m] = 0;
    }
    return false;
}

void zt_err_print(const struct zt_err *err, FILE *to) {
    int shown = err->count < ZT_ERR_LINES ? err->count : ZT_ERR_LINES;
    if (shown)
        zt_show_line_begin(to);
    for (int i = 0; i < shown; i++) {
        fprintf(to, ZT_ERR_MARK "%s%s%s\n", err->place, err->place[0] ? ": " : "", err->text[i]);
        if (err->hint[i][0])
            fprintf(to, "hint: %s\n", err->hint[i]);
    }
    if (err->count > shown)
        fprintf(to, ZT_ERR_MARK "and %d more\n", err->count - shown);
}
