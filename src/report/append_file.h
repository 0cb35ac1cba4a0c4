/* A file that grows at its end. Text is collected in `pending` and written in one go, so that readers see whole lines.
 */
#ifndef ZT_REPORT_APPEND_FILE_H
#define ZT_REPORT_APPEND_FILE_H

#include "base/err.h"
#include "base/text.h"

#include <stdint.h>

struct zt_append_file {
    char *path; /* NULL: closed */
    int file;
    struct zt_text pending;
};

/* Opens `path` for appending and creates it if necessary; with `fresh` the file must not exist. Links are refused. On
 * failure *to is closed. */
bool zt_append_file_open(struct zt_append_file *to, const char *path, bool fresh, struct zt_err *err);
/* Returns whether nothing has been written or collected. */
bool zt_append_file_is_empty(const struct zt_append_file *file);
/* Writes the pending text; with `sync` it also waits until the file is on disk. Does nothing for a closed file. */
bool zt_append_file_flush(struct zt_append_file *file, bool sync, struct zt_err *err);
/* Flushes and closes; frees what the struct holds. Accepts a closed file and a zeroed
 * struct. */
bool zt_append_file_close(struct zt_append_file *file, struct zt_err *err);

#endif
