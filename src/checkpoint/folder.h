/* The folder checkpoints/ of a run:
 *
 *     step-24/          a complete checkpoint; one rename gave it this name, which ztrain.checkpoint.tag may change
 *     latest, best      "step-24" and a newline: the newest checkpoint, and that of the best evaluation
 *     .tmp-step-48/     a checkpoint that is being written, or was when the program was killed
 *     .old-step-12/     a checkpoint that is being removed
 *
 * Only one rank changes the folder (storage.h). At any moment at which the program may be killed, `latest` names a
 * complete checkpoint: files are flushed to disk before the rename, the rename before `latest` changes, and the old
 * checkpoint is removed afterwards. */
#ifndef ZT_CHECKPOINT_FOLDER_H
#define ZT_CHECKPOINT_FOLDER_H

#include "base/err.h"

#include <stdint.h>

/* The name of the folder within the run's folder. */
#define ZT_CHECKPOINTS "checkpoints"

/* The folder, and the name of its checkpoints: `tag`, at most 32 characters, and the step. */
struct zt_checkpoint_folder {
    char *path;
    const char *tag;
};

/* Returns the folder of a step. The caller frees all paths that these functions return with free(). */
char *zt_checkpoint_path(const struct zt_checkpoint_folder *folder, int64_t step);
/* Returns the temporary folder of a step. */
char *zt_checkpoint_temporary(const struct zt_checkpoint_folder *folder, int64_t step);

/* Creates the folder, removes what a killed program left in it, and creates the temporary folder of a step. */
bool zt_checkpoint_begin(const struct zt_checkpoint_folder *folder, int64_t step, struct zt_err *err);
/* Renames the temporary folder, whose files are on disk, to step-N, replaces an existing one, and updates `latest`. */
bool zt_checkpoint_commit(const struct zt_checkpoint_folder *folder, int64_t step, struct zt_err *err);
/* Removes a temporary folder, if it exists. */
void zt_checkpoint_abandon(const struct zt_checkpoint_folder *folder, int64_t step);
/* Writes the name of a step's checkpoint to FOLDER/NAME. */
bool zt_checkpoint_point(const struct zt_checkpoint_folder *folder, const char *name, int64_t step, struct zt_err *err);
/* The same if there is a checkpoint of that step; otherwise removes FOLDER/NAME. */
bool zt_checkpoint_point_back(const struct zt_checkpoint_folder *folder, const char *name, int64_t step,
                              struct zt_err *err);
/* Removes checkpoints except the newest `keep` (0: all) and that of step `best`. Those after `step`, which remain when
 * a run resumed from an earlier one, count as the oldest. */
bool zt_checkpoint_prune(const struct zt_checkpoint_folder *folder, int64_t step, int64_t keep, int64_t best,
                         struct zt_err *err);
/* Removes all files that this program writes there, for --overwrite, and nothing else. */
bool zt_checkpoint_clear(const struct zt_checkpoint_folder *folder, struct zt_err *err);

/* Returns the checkpoint that `path` refers to: the folder itself, the target of a file `latest` or `best`, or the
 * latest checkpoint of a folder of checkpoints or of a run. If there is none, returns NULL with an error
 * (ZT_EXIT_DATA). */
char *zt_checkpoint_find(const char *path, struct zt_err *err);
/* Returns the latest checkpoint of a run. If there is none, returns NULL with an error (ZT_EXIT_DATA) and a hint. */
char *zt_checkpoint_latest(const char *run_folder, struct zt_err *err);

#endif
