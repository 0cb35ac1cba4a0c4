/* Checkpoints of a run: when one is saved, and how a run goes on from one (contract.md, "What a run leaves").
 *
 * What a checkpoint holds is in format.h, what becomes of its folder in folder.h. Every rank has
 * one of these objects; open and step are collective: each rank writes the slices that it owns where they belong in the
 * whole files, and reads what it holds, so that the ranks of a later run may be others. */
#ifndef ZT_CHECKPOINT_CHECKPOINT_H
#define ZT_CHECKPOINT_CHECKPOINT_H

#include "report/monitor.h"
#include "run/evaluate.h"
#include "session/session.h"

struct zt_checkpoints;

struct zt_checkpoints_options {
    const struct zt_session *session; /* borrowed, as all that follows */
    const struct zt_rank_plan *plan;
    struct zt_rank *rank;
    struct zt_comm *world;
    const char *folder;       /* of the run */
    const char *from;         /* the checkpoint to go on from; NULL: none */
    int64_t steps, per_epoch; /* of the run, in an epoch */
};

/* Lays out the files and, where there is a `from`, checks and loads it: *first_step is how many steps are done. Refuses
 * a checkpoint that does not fit model, data or configuration. */
struct zt_checkpoints *zt_checkpoints_open(const struct zt_checkpoints_options *options, int64_t *first_step,
                                           struct zt_err *err);
/* Rank 0 makes the folder this run's: with --overwrite the checkpoints of the run before go; the one that it goes on
 * from, where it is of this folder, is the latest again. To be called before the first step and when all ranks have
 * opened what they need, so that a run which cannot begin changes nothing. Harmless on other ranks. */
bool zt_checkpoints_begin(struct zt_checkpoints *c, struct zt_err *err);
/* Rank 0: what the run goes on from, and where its configuration is another than then. */
void zt_checkpoints_report(const struct zt_checkpoints *c, const struct zt_log *log);
void zt_checkpoints_close(struct zt_checkpoints *c); /* NULL is harmless */

/* The end of a step. */
struct zt_step_end {
    int64_t step;                      /* steps done */
    const struct zt_eval_result *eval; /* of an evaluation that followed it; NULL: there was none */
    bool asked;                        /* a signal asks for a checkpoint; the same on every rank */
    struct zt_monitor *monitor;        /* rank 0: told of what was saved; NULL elsewhere */
};
/* Saves where that is due: a multiple of ztrain.checkpoint.every_steps, the end of a multiple of every_epochs, the last
 * step, an evaluation better than all before, or when asked. The first three only where one of these keys is not 0. */
bool zt_checkpoints_step(struct zt_checkpoints *c, const struct zt_step_end *end, struct zt_err *err);

/* Whether it will whatever an evaluation finds, and unasked. */
bool zt_checkpoints_due(const struct zt_checkpoints *c, int64_t step);

/* `ztrain verify`: checks structure and every checksum of the checkpoint in the folder `path`, and says what it holds
 * on `to`. Each damaged place is a problem of its own. */
bool zt_checkpoint_verify(const char *path, FILE *to, struct zt_err *err);

#endif
