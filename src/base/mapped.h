/* Files that stay mapped while other programs may change them.
 *
 * Reading a page of a mapping that its file no longer has (the file was cut short, its device fails, its tmpfs is full)
 * raises SIGBUS. The handler finds the mapping by the address, puts zeros in place of the rest of it, marks it, and the
 * reader goes on. What was read counts only after zt_mapped_intact() has said so, which also compares size and time of
 * the file with those at the beginning. A SIGBUS of any other origin ends the process as before.
 *
 * The list of mappings is global: a signal handler has no argument. It is read without a lock there. */
#ifndef ZT_BASE_MAPPED_H
#define ZT_BASE_MAPPED_H

#include "base/err.h"

#include <stddef.h>
#include <sys/stat.h>

struct zt_mapped;

/* Enters the mapping [data, data + size) of the file `path`, whose state was `st` before it was mapped. `path` is
 * copied, and must go on to lead to the file from the current folder. */
struct zt_mapped *zt_mapped_enter(const void *data, size_t size, const char *path, const struct stat *st);
/* Before it is unmapped. NULL is harmless. */
void zt_mapped_leave(struct zt_mapped *mapped);

/* False where the file has changed since it was mapped, or could not be read. That problem then is the only one of
 * `err`, with ZT_EXIT_DATA: those before it may be about bytes that the file never had. A file that was removed or
 * replaced by another of its name has not changed: the mapping keeps the old one. NULL is intact. */
bool zt_mapped_intact(const struct zt_mapped *mapped, struct zt_err *err);
/* The same for all that are entered, but for those whose reader checks every read itself. */
bool zt_mapped_all_intact(struct zt_err *err);
void zt_mapped_checked_by_reader(struct zt_mapped *mapped);
/* Whether since the start of the process a page of some mapping could not be read. Costs nothing. */
bool zt_mapped_faults(void);

#endif
