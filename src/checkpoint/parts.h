/* The checkpoints of a running rank: what checkpoint.c (when), save.c and load.c share. */
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

#endif
