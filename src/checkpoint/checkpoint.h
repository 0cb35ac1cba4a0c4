/* Checkpoints of a run: when they are saved, and how a run resumes from one.
 *
 * format.h describes the contents of a checkpoint, folder.h the folder. Every rank has one of these objects; open and
 * step are collective. Each rank writes the slices that it owns to their place in the whole files and reads those that
 * it needs, so that a run may resume on other ranks. */
#ifndef ZT_CHECKPOINT_CHECKPOINT_H
#define ZT_CHECKPOINT_CHECKPOINT_H

#include "report/console.h"
#include "run/evaluate.h"
#include "session/session.h"

struct zt_checkpoints;

struct zt_checkpoints_options {
    const struct zt_session *session; /* borrowed, like all pointers below */
    const struct zt_rank_plan *plan;
    struct zt_rank *rank;
    struct zt_comm *world;
    const char *folder;           /* of the run */
    const char *from;             /* checkpoint to resume from; NULL: none */
    const struct zt_err *unfound; /* why a run that resumes has no `from` on this host; NULL: others */
    int64_t steps;                /* number of steps of the run */
    struct zt_epochs epochs;
};

/* Lays out the files. If there is a `from`, checks and loads it; *first_step is the number of steps done. Reports an
 * error for a checkpoint that does not fit model, data or configuration. */
struct zt_checkpoints *zt_checkpoints_open(const struct zt_checkpoints_options *options, int64_t *first_step,
                                           struct zt_err *err);
/* On the first rank of each folder (storage.h), takes over the folder: with --overwrite removes the checkpoints of the
 * earlier run; if the run resumes from a checkpoint of this folder, that one becomes the latest. Must be called before
 * the first step and after all ranks have opened what they need, so that a run that cannot start changes nothing. Does
 * nothing on other ranks. */
bool zt_checkpoints_begin(struct zt_checkpoints *c, struct zt_err *err);
/* On rank 0, prints the checkpoint that the run resumes from, and the config keys that have changed since. */
void zt_checkpoints_report(const struct zt_checkpoints *c, const struct zt_log *log);
void zt_checkpoints_close(struct zt_checkpoints *c); /* accepts NULL */

/* The state at the end of a step. */
struct zt_step_end {
    int64_t step;                      /* number of steps done */
    const struct zt_eval_result *eval; /* result of an evaluation after the step; NULL: none */
    bool asked;                        /* a signal asks for a checkpoint; equal on all ranks */
    struct zt_console *console;        /* rank 0: reports saved checkpoints; NULL on other ranks */
};
/* Saves a checkpoint if it is due: at multiples of ztrain.checkpoint.every_steps, at the end of multiples of
 * every_epochs, after the last step, after the best evaluation so far, or on request. The first three only apply if one
 * of these keys is not 0. */
bool zt_checkpoints_step(struct zt_checkpoints *c, const struct zt_step_end *end, struct zt_err *err);

/* Whether a checkpoint is due after `step`, without evaluations and requests. */
bool zt_checkpoints_due(const struct zt_checkpoints *c, int64_t step);

/* `ztrain verify`: checks structure and every checksum of the checkpoint in the folder `path`, and prints its contents
 * to `to`. Each damaged block is a separate problem. */
bool zt_checkpoint_verify(const char *path, FILE *to, struct zt_err *err);

#endif
