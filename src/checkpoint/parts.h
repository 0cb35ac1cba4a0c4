/* Between checkpoint.c (when), save.c, load.c and record.c. */
#ifndef ZT_CHECKPOINT_PARTS_H
#define ZT_CHECKPOINT_PARTS_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/format.h"

enum { ZT_WEIGHTS_FILE, ZT_OPTIMIZER_FILE };

struct zt_checkpoints {
    struct zt_checkpoints_options o;
    struct zt_arena *arena;
    char *folder;                                 /* of the checkpoints */
    struct zt_stored_file files[ZT_STORED_FILES]; /* weights by plan->model; optimizer by [state][trained tensor] */
    struct zt_text head[ZT_STORED_FILES];         /* what stands in front of their data */
    uint32_t *crc[ZT_STORED_FILES]; /* by block: what this rank wrote of it, shifted to its end; on rank 0 then the xor
                                       of all ranks */
    uint32_t *peer_crc;             /* rank 0: room for those of another rank */
    void *bounce;                   /* a piece or a statistic on its way from a device with memory of its own */
    struct zt_manifest manifest;    /* of the next checkpoint; what changes with the step is set when it is written */
    struct zt_manifest loaded;      /* what the run went on from */
    bool recorded;                  /* the manifest has what zt_record_make() fills */
    int64_t saved;                  /* step of the newest one; -1: none yet */
};

/* Writes checkpoints/step-N and makes it the latest. */
bool zt_checkpoint_save(struct zt_checkpoints *c, int64_t step, struct zt_monitor *monitor, struct zt_err *err);
/* Checks the checkpoint in c->o.from and takes it over: weights, statistics, optimizer, counters, best evaluation. */
bool zt_checkpoint_load(struct zt_checkpoints *c, struct zt_err *err);

/* Fills what a manifest says of model, data and configuration. It takes the time to read the model's files, and so is
 * done when it is needed: by all ranks that load, and by rank 0 when the first checkpoint is saved. */
bool zt_record_make(const struct zt_session *session, struct zt_arena *arena, struct zt_manifest *to,
                    struct zt_err *err);
/* Whether a run that `now` was recorded of may go on from `stored`. */
bool zt_record_fits(const struct zt_session *session, const struct zt_manifest *stored, const struct zt_manifest *now,
                    struct zt_err *err);
/* A row for every key whose value is another, of those that may be. */
void zt_record_report(const struct zt_manifest *stored, const struct zt_manifest *now, const struct zt_log *log);

#endif
