#include "base/log.h"
#include "base/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The text has been escaped: it has no control characters and is UTF-8. */
static void print_json_text(FILE *to, const char *text) {
    for (; *text; text++)
        fprintf(to, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

void zt_say(const struct zt_log *log, enum zt_log_level level, const char *fmt, ...) {
    static const char *const name[] = { "debug", "info", "warning", "error", "critical" };
    if (!log || level < log->level)
        return;
    char raw[4096], text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    zt_show(text, sizeof text, raw);
    flockfile(stderr);
    if (log->json) {
        fprintf(stderr, "{\"level\": \"%s\", \"text\": \"", name[level]);
        print_json_text(stderr, text);
        fputs("\"}\n", stderr);
    } else {
        if (level == ZT_LOG_WARNING)
            zt_show_line_begin(stderr);
        fprintf(stderr, "%s%s\n", level == ZT_LOG_WARNING ? "ztrain: warning: " : "", text);
    }
    funlockfile(stderr);
}

void zt_say_lines(const struct zt_log *log, enum zt_log_level level, const char *text) {
    for (size_t n; (n = strcspn(text, "\n")) > 0; text += n + (text[n] != 0))
        zt_say(log, level, "%.*s", (int)n, text);
}
