/* Disk cache: results that are expensive to compute, in the folder ztrain below XDG_CACHE_HOME or ~/.cache. The file
 * name is a hash of the key, which describes everything the result depends on. Files are written atomically and contain
 * their key and a checksum; corrupt entries are ignored. */
#ifndef ZT_BASE_DISK_CACHE_H
#define ZT_BASE_DISK_CACHE_H

#include "base/err.h"
#include "base/text.h"

/* Appends the path of the key's file, with the suffix `end`, to `to`. Returns false if there is no cache folder. */
bool zt_disk_cache_path(const char *key, const char *end, struct zt_text *to);
/* Appends the contents of a file to `to`. Returns false if the file is missing, corrupt, or belongs to another key. */
bool zt_disk_cache_read(const char *path, const char *key, struct zt_text *to);
bool zt_disk_cache_write(const char *path, const char *key, const struct zt_text *content, struct zt_err *err);

#endif
