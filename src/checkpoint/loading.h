/* A checkpoint that is being loaded, shared by load.c and load_parts.c. */
#ifndef ZT_CHECKPOINT_LOADING_H
#define ZT_CHECKPOINT_LOADING_H

#include "checkpoint/sources.h"
#include "checkpoint/state.h"

struct zt_loading {
    struct zt_checkpoints *c;
    struct zt_file_map map[ZT_STORED_FILES];
    struct zt_file_map *parts; /* by rank that wrote them; a checkpoint in parts has these instead */
    struct zt_sources sources;
    struct zt_manifest manifest;
    struct zt_stored_file rank_states; /* those of the file that this run takes over; else empty */
    bool has_rank_states;              /* the checkpoint has the file */
    bool looks;                        /* for what is missing: nothing is taken over yet */
    struct zt_err *err;
};

/* The hint of an error about damage. Returns false. */
static inline bool zt_load_hint_damage(const struct zt_loading *l) {
    return zt_hint(l->err, "`ztrain verify %s` lists all damage; --resume accepts an earlier checkpoint", l->c->o.from);
}
/* Opens and checks the parts in the folder. */
bool zt_load_open_parts(struct zt_loading *l);
/* Closes them. `ok`: the outcome so far, which is returned. */
bool zt_load_close_parts(struct zt_loading *l, bool ok);

#endif
