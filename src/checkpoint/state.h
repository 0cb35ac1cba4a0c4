/* The state of zt_checkpoints, shared by checkpoint.c, save.c and load.c. */
#ifndef ZT_CHECKPOINT_STATE_H
#define ZT_CHECKPOINT_STATE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/format.h"
#include "checkpoint/storage.h"

/* The files of a checkpoint; the part of a rank (parts.h). */
enum { ZT_WEIGHTS_FILE, ZT_OPTIMIZER_FILE, ZT_RANKS_FILE, ZT_PART_FILE, ZT_FILES };

struct zt_checkpoints {
    struct zt_checkpoints_options o;
    struct zt_arena *arena;
    struct zt_checkpoint_storage storage;
    struct zt_checkpoint_folder folder;    /* of the checkpoints */
    struct zt_stored_file files[ZT_FILES]; /* weights in the order of plan->model; optimizer by [state][trained
                                              tensor], then what is remembered of each trained tensor; the part
                                              is laid out when it is saved */
    struct zt_text head[ZT_FILES];         /* header before the data */
    struct zt_stored_file rank_states[2];  /* ranks.safetensors, by whether weights and states are apart */
    struct zt_text rank_heads[2];          /* `head` borrows one of them */
    uint32_t *crc[ZT_FILES];     /* by block, then by tensor: checksums of what this rank wrote, shifted to the end
                                    of the block or tensor; on the first rank of the
                                    folder finally the xor over its ranks */
    uint32_t *peer_crc;          /* buffer for the checksums of another rank */
    void *bounce;                /* host buffer for copies from device memory */
    struct zt_manifest manifest; /* of the next checkpoint; fields that depend on the step are set when it is written */
    struct zt_manifest loaded;   /* manifest of the checkpoint that the run resumed from */
    bool recorded;               /* `manifest` has the fields of zt_record_make() */
    const char *restarted; /* why compression errors did not come from the checkpoint; NULL: they did, or there are
                              none */
    int64_t saved;         /* step of the newest checkpoint; -1: none */
};

#endif
