/* The ranks that share a folder of checkpoints: all of them, or with checkpoint.use_node_local_storage those of one
 * host.
 *
 * Each folder has one rank that changes it, the first of its ranks. A host whose ranks have the whole state writes a
 * whole checkpoint, each host the same bytes. Otherwise every rank writes a part (parts.h). */
#ifndef ZT_CHECKPOINT_STORAGE_H
#define ZT_CHECKPOINT_STORAGE_H

#include "base/folder_lock.h"
#include "checkpoint/checkpoint.h"

typedef char zt_host_name[64];

struct zt_checkpoint_storage {
    struct zt_comm *here; /* ranks that share the folder of this rank; the world, or a split of it */
    bool several;         /* there are several folders */
    bool parts;           /* the ranks of a folder do not have the whole state: each writes a part */
    int peers, index;     /* ranks of this stage that share the folder; number of this rank among them */
    /* with several folders, by rank: */
    zt_host_name *host;
    int *first;                  /* the first rank of its host */
    struct zt_folder_lock *lock; /* of the folder of a host other than rank 0's, on its first rank */
};

/* Collective. With several folders, the first rank of each host other than rank 0's creates and locks its folder, which
 * must not hold checkpoints of another run. */
bool zt_storage_open(struct zt_checkpoint_storage *s, const struct zt_checkpoints_options *options,
                     struct zt_arena *arena, struct zt_err *err);
void zt_storage_close(struct zt_checkpoint_storage *s);

/* Whether this rank changes the folder. */
static inline bool zt_storage_leads(const struct zt_checkpoint_storage *s) {
    return s->here && s->here->rank == 0;
}

/* Returns whether `ok` holds on all ranks. Otherwise the lowest rank where it does not keeps its error, which is
 * printed once. Collective. */
bool zt_storage_agree(struct zt_comm *world, bool ok, struct zt_err *err);

/* Makes the output folder of a run, locks it and checks it (run_files.h). It must not lie in the checkpoints of a run
 * that is running. If this fails, nothing in it has changed. */
bool zt_storage_take(const struct zt_session *session, const char *folder, struct zt_folder_lock **lock,
                     struct zt_err *err);

#endif
