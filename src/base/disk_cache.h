/* What took work to make, kept in the folder ztrain below XDG_CACHE_HOME or ~/.cache, under a name made of what it was
 * made from: its key. A file there is seen whole or not at all, holds its key and a checksum, and counts for nothing
 * where it is not what it should be. */
#ifndef ZT_BASE_DISK_CACHE_H
#define ZT_BASE_DISK_CACHE_H

#include "base/err.h"
#include "base/text.h"

/* Appends the path of the key's file, which ends in `end`; false where there is no folder for it. */
bool zt_disk_cache_path(const char *key, const char *end, struct zt_text *to);
/* Appends what a file holds; false where it is not there, damaged or of another key. */
bool zt_disk_cache_read(const char *path, const char *key, struct zt_text *to);
bool zt_disk_cache_write(const char *path, const char *key, const struct zt_text *content, struct zt_err *err);

#endif
