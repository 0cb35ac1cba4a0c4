/* The files in the folder of a run: one table of their names. */
#ifndef ZT_CHECKPOINT_RUN_FILES_H
#define ZT_CHECKPOINT_RUN_FILES_H

#include "session/session.h"

/* Protects the files of a folder: it is an error if the folder has a file with a name that a run writes, and neither
 * --resume nor --overwrite is given. */
bool zt_run_files_absent(const struct zt_options *options, const char *folder, struct zt_err *err);
/* It is an error if a run in the folder cannot write a file because its name is that of something else, a folder for
 * example, or if a run would write over or remove a file that it reads. */
bool zt_run_files_writable(const struct zt_session *session, const char *folder, struct zt_err *err);
/* Removes the files of the run that is replaced, except checkpoints, hashes and event files, which have owners of their
 * own (checkpoint/folder.h, run/hashes, report/event_file.h), and files that the new run replaces at once. */
void zt_run_files_remove(const char *folder);

#endif
