/* A lock on the output folder of a run: one run at a time writes to it.
 *
 * The lock is an open file description lock (fcntl) on the file `.ztrain-lock` in the folder. The system releases it
 * when the process ends, and it holds across the hosts of a network file system. The file names the process that holds
 * the lock. It is removed at the end; a file that remains (kill -9) locks nothing. */
#ifndef ZT_BASE_FOLDER_LOCK_H
#define ZT_BASE_FOLDER_LOCK_H

#include "base/err.h"

struct zt_folder_lock;

/* Locks `folder`. Returns NULL with an error (ZT_EXIT_DATA) if another process holds the lock, which the error names,
 * or if the file cannot be created. */
struct zt_folder_lock *zt_folder_lock(const char *folder, struct zt_err *err);
/* Returns false with the error of zt_folder_lock() if another process or thread holds the lock. Changes nothing. */
bool zt_folder_is_free(const char *folder, struct zt_err *err);
/* Returns the reason why the file system does not support locks; NULL if the folder is locked. */
const char *zt_folder_unlockable(const struct zt_folder_lock *lock);
/* Accepts NULL. */
void zt_folder_unlock(struct zt_folder_lock *lock);

#endif
