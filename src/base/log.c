#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static void print_json_text(FILE *to, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20)
            fprintf(to, "\\u%04x", c);
        else
            fputc(c, to);
    }
}

void zt_say(const struct zt_log *log, enum zt_log_level level, const char *fmt, ...) {
    static const char *const name[] = { "debug", "info", "warning", "error", "critical" };
    if (!log || level < log->level)
        return;
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    flockfile(stderr);
    if (log->json) {
        fprintf(stderr, "{\"level\": \"%s\", \"text\": \"", name[level]);
        print_json_text(stderr, text);
        fputs("\"}\n", stderr);
    } else {
        fprintf(stderr, "%s%s\n", level == ZT_LOG_WARNING ? "ztrain: warning: " : "", text);
    }
    funlockfile(stderr);
}
