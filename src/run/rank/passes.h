/* Passes over the pieces of a rank that the host updates, one sub-group in memory after the other. */
#ifndef ZT_RUN_RANK_PASSES_H
#define ZT_RUN_RANK_PASSES_H

#include "run/rank/offload.h"

/* A pass over neighbouring pieces on all threads: `body` runs for piece `i` of the rank. */
struct zt_piece_pass {
    unsigned use; /* enum zt_sub_group_use */
    int first, count;
    bool leaves_matrices; /* leaves out the pieces of r->matrices */
    void (*body)(void *arg, int64_t i);
    void *arg;
};
/* Runs the pass over the pieces that the host updates: beside a GPU those that are offloaded, else all. One sub-group
 * after the other is brought into memory as far as it is read, where its pieces point to it, and written as far as
 * `use` says. Writes may still go on: another pass over the same pieces waits for them. */
bool zt_rank_pass(struct zt_rank *r, const struct zt_piece_pass *pass, struct zt_err *err);
/* Calls `visit` for every piece, while its sub-group is in memory, and waits until everything is written. */
bool zt_rank_each_piece(struct zt_rank *r, unsigned use,
                        bool (*visit)(void *with, const struct zt_piece *piece, struct zt_err *err), void *with,
                        struct zt_err *err);
/* The same for the pieces of a tensor, whose parameters are read. */
bool zt_rank_each_piece_of(struct zt_rank *r, int tensor,
                           bool (*visit)(void *with, const struct zt_piece *piece, struct zt_err *err), void *with,
                           struct zt_err *err);

#endif
