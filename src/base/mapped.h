/* Mapped files that other programs may change.
 *
 * Reading a mapped page that its file no longer has (the file was truncated, its device failed, its tmpfs is full)
 * raises SIGBUS. The signal handler finds the mapping by its address, replaces the rest of the mapping by zeros, marks
 * it as faulty, and the reader continues. The data read are only valid if zt_mapped_intact() confirms it afterwards; it
 * also compares size and modification time of the file with those at the beginning. A SIGBUS with another cause ends
 * the process.
 *
 * The list of mappings is global because a signal handler has no argument. The handler reads it without a lock. */
#ifndef ZT_BASE_MAPPED_H
#define ZT_BASE_MAPPED_H

#include "base/err.h"

#include <stddef.h>
#include <sys/stat.h>

struct zt_mapped;

/* Registers the mapping [data, data + size) of the file `path`. `st` is the state of the file before it was mapped.
 * `path` is copied, and must remain valid relative to the current folder. */
struct zt_mapped *zt_mapped_enter(const void *data, size_t size, const char *path, const struct stat *st);
/* Removes the mapping from the list; must be called before it is unmapped. Accepts NULL. */
void zt_mapped_leave(struct zt_mapped *mapped);

/* Gives back the memory of the pages that lie whole within [data, data + bytes), if that is part of a registered
 * mapping; nothing happens otherwise. They are read from the file again when they are touched. */
void zt_mapped_give_back(const void *data, size_t bytes);

/* Returns false if the file has changed since it was mapped, or could not be read. That is then the only problem in
 * `err`, with ZT_EXIT_DATA, because earlier problems may be about bytes that the file never had. A file that was
 * removed or replaced counts as unchanged: the mapping keeps the old one. NULL is intact. */
bool zt_mapped_intact(const struct zt_mapped *mapped, struct zt_err *err);
/* zt_mapped_intact() for all registered mappings except those marked by zt_mapped_checked_by_reader(). */
bool zt_mapped_all_intact(struct zt_err *err);
void zt_mapped_checked_by_reader(struct zt_mapped *mapped);
/* Whether `is` is true for the path of a registered mapping. It must not call functions of this file. */
bool zt_mapped_any(bool (*is)(const char *path, const void *with), const void *with);
/* Whether any mapping had an unreadable page since the start of the process. This check is cheap. */
bool zt_mapped_faults(void);

#endif
