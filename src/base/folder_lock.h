/* A folder in which one run at a time writes.
 *
 * The lock is the system's (fcntl, of the open file), on the file `.ztrain-lock` in the folder: it ends with the
 * process that holds it, however that ends, and holds between the hosts of a network file system. The file says who
 * holds it; it is removed at the end, and where it stays (kill -9) it locks nothing. */
#ifndef ZT_BASE_FOLDER_LOCK_H
#define ZT_BASE_FOLDER_LOCK_H

#include "base/err.h"

struct zt_folder_lock;

/* NULL where another process holds it, which the error names, or where the file cannot be made: ZT_EXIT_DATA. */
struct zt_folder_lock *zt_folder_lock(const char *folder, struct zt_err *err);
/* Why nothing was locked: the file system knows no locks. NULL: it is locked. */
const char *zt_folder_unlockable(const struct zt_folder_lock *lock);
/* NULL is harmless. */
void zt_folder_unlock(struct zt_folder_lock *lock);

#endif
