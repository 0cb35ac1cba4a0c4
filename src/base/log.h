/* Messages of a running program, on standard error. Only rank 0 prints messages. Errors go through err.h. */
#ifndef ZT_BASE_LOG_H
#define ZT_BASE_LOG_H

#include <stdbool.h>

enum zt_log_level { ZT_LOG_DEBUG, ZT_LOG_INFO, ZT_LOG_WARNING, ZT_LOG_ERROR, ZT_LOG_CRITICAL };

/* Options of messages. They are passed to every function that prints; NULL prints nothing. */
struct zt_log {
    enum zt_log_level level; /* lowest level that is printed (config key log_level, --quiet, --verbose) */
    bool json;               /* --json: one object per line, {"level": ..., "text": ...} */
};

/* Prints one line and a newline. Warnings start with "ztrain: warning: ". Text is escaped as base/show.h describes. */
void zt_say(const struct zt_log *log, enum zt_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints each line of `text` as zt_say() prints one. */
void zt_say_lines(const struct zt_log *log, enum zt_log_level level, const char *text);

#endif
