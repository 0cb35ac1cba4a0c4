/* What the program says while it runs: talk goes to stderr. Only rank 0 talks; errors go through err.h. */
#ifndef ZT_BASE_LOG_H
#define ZT_BASE_LOG_H

#include <stdbool.h>

enum zt_log_level { ZT_LOG_DEBUG, ZT_LOG_INFO, ZT_LOG_WARNING, ZT_LOG_ERROR, ZT_LOG_CRITICAL };

/* How to talk: passed to whoever talks, never global. NULL means silence. */
struct zt_log {
    enum zt_log_level level; /* messages below it are dropped (config key log_level, --quiet, --verbose) */
    bool json;               /* --json: one object a line, {"level": ..., "text": ...} */
};

/* One line; a newline is added. Warnings start with "ztrain: warning: ". Text is escaped as base/show.h says. */
void zt_say(const struct zt_log *log, enum zt_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
