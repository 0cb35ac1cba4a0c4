#include "base/err.h"

#include <stdarg.h>
#include <string.h>

/* Text of a hostile file may hold anything: what is not printable becomes '?', so that one problem stays one line. */
static void make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

bool zt_fail(struct zt_err *err, enum zt_exit code, const char *fmt, ...) {
    if (err->count == 0)
        err->code = code;
    if (err->count < ZT_ERR_LINES) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->text[err->count], ZT_ERR_TEXT, fmt, ap);
        va_end(ap);
        make_printable(err->text[err->count]);
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
    vsnprintf(err->hint[err->count - 1], ZT_ERR_TEXT, fmt, ap);
    va_end(ap);
    make_printable(err->hint[err->count - 1]);
    return false;
}

bool zt_err_within(struct zt_err *err, int first, const char *fmt, ...) {
    char prefix[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    int length = vsnprintf(prefix, sizeof prefix - 3, fmt, ap);
    va_end(ap);
    if (length < 0)
        return false;
    if (length > (int)sizeof prefix - 4)
        length = (int)sizeof prefix - 4;
    memcpy(prefix + length, ": ", 3);
    make_printable(prefix);
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
    for (int i = 0; i < shown; i++) {
        fprintf(to, ZT_ERR_MARK "%s%s%s\n", err->place, err->place[0] ? ": " : "", err->text[i]);
        if (err->hint[i][0])
            fprintf(to, "hint: %s\n", err->hint[i]);
    }
    if (err->count > shown)
        fprintf(to, ZT_ERR_MARK "and %d more\n", err->count - shown);
}
