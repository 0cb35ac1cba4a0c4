/* The folder checkpoints/ of a run:
 *
 *     step-24/          a checkpoint: what its name says is whole, for it came there by one rename
 *     latest, best      "step-24" and a newline: the newest one, and that of the best evaluation
 *     .tmp-step-48/     one that is being written, or was when the program was killed
 *     .old-step-12/     one that is being removed
 *
 * Rank 0 alone changes it. Whatever moment the program is killed at, `latest` names a checkpoint that is whole: files
 * are brought to the disk before the rename, the rename before `latest`, and what `latest` named goes after that. */
#ifndef ZT_CHECKPOINT_FOLDER_H
#define ZT_CHECKPOINT_FOLDER_H

#include "base/err.h"

#include <stdint.h>

/* Its name in the run's folder. */
#define ZT_CHECKPOINTS "checkpoints"

/* All paths returned are free()d by the caller. `folder` is that of the checkpoints, FOLDER/checkpoints of a run. */
char *zt_checkpoint_temporary(const char *folder, int64_t step);

/* Makes the folder, removes what a killed program left in it, and makes the temporary folder of a step. */
bool zt_checkpoint_begin(const char *folder, int64_t step, struct zt_err *err);
/* The temporary folder, whose files are on the disk, becomes step-N (in place of one of that name), and `latest`. */
bool zt_checkpoint_commit(const char *folder, int64_t step, struct zt_err *err);
/* Gives up a temporary folder; harmless where there is none. */
void zt_checkpoint_abandon(const char *folder, int64_t step);
/* FOLDER/NAME says "step-N". */
bool zt_checkpoint_point(const char *folder, const char *name, int64_t step, struct zt_err *err);
/* The same where there is a checkpoint of that step; else the pointer goes. */
bool zt_checkpoint_point_back(const char *folder, const char *name, int64_t step, struct zt_err *err);
/* Of the checkpoints up to `step` the newest `keep` stay, and that of step `best`; 0: all stay. Those of later steps,
 * from which somebody went back, are left alone. */
bool zt_checkpoint_prune(const char *folder, int64_t step, int64_t keep, int64_t best, struct zt_err *err);
/* Removes all that this program writes there, for --overwrite; nothing else. */
bool zt_checkpoint_clear(const char *folder, struct zt_err *err);

/* The checkpoint that `path` means: one itself, what a file `latest` or `best` names, or the latest of a folder of
 * checkpoints or of a run. NULL with an error of ZT_EXIT_DATA where there is none. */
char *zt_checkpoint_find(const char *path, struct zt_err *err);
/* The latest of a run; NULL with an error of ZT_EXIT_DATA, whose hint says so where the run has left none. */
char *zt_checkpoint_latest(const char *run_folder, struct zt_err *err);

#endif
