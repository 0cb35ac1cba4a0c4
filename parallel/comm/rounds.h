/* A collective as rounds, for communicators whose ranks share no memory.
 *
 * In every round each rank gives every other rank some bytes (none is allowed) and takes what it was given. What is
 * given, and what is done with it, is a row below; how the bytes travel is the transport's business (through a window
 * on a host, as MPI's messages, as frames over TCP). So the sums of all transports are the same code, and the same
 * bits:
 *
 *     reduce_scatter   gives rank `to` this rank's addend of a piece of its slice; the owner adds in rank order
 *     all_gather       gives everybody a piece of this rank's slice
 *     broadcast        the root gives everybody a piece
 *     sum              gives everybody some scalars; every rank adds them in rank order
 *     barrier          gives nothing */
#ifndef ZT_PARALLEL_COMM_ROUNDS_H
#define ZT_PARALLEL_COMM_ROUNDS_H

#include "parallel/comm/comm.h"

struct zt_rounds;

struct zt_rounds_kind {
    const char *name;
    bool same_for_all; /* every peer is given the same bytes */
    /* Rounds of the whole collective; the same on every rank. At least one. */
    int64_t (*count)(const struct zt_rounds *op);
    /* Bytes that `from` gives `to` in `round`, at most op->room; known to both. */
    size_t (*bytes)(const struct zt_rounds *op, int64_t round, int from, int to);
    /* Where the bytes for `to` lie. Called only where there are any. */
    const void *(*give)(const struct zt_rounds *op, int64_t round, int to);
    /* given[r]: what rank r gave this one, for every other r; given[rank] may be set here. */
    void (*take)(const struct zt_rounds *op, int64_t round, const void **given);
};

struct zt_rounds {
    const struct zt_rounds_kind *kind;
    int rank, size;
    void *data;                          /* the caller's buffer */
    const int64_t *bound;                /* reduce_scatter, all_gather: size + 1 slice bounds in elements */
    size_t width;                        /* bytes an element */
    size_t bytes;                        /* the whole of `data` */
    int root;                            /* broadcast, else 0 */
    const struct zt_shared_block *block; /* whose memory `data` is, where the peers read it there; NULL: they do not */
    size_t room; /* most bytes for one peer in one round; a multiple of 64; set by the transport */
};

/* Fills in t->row for `c` at its first round, but for what the transport knows: block, rounds. */
void zt_rounds_prepare(struct zt_transfer *t, struct zt_comm *c);
/* What a prepared transfer does, but for `room`. */
struct zt_rounds zt_rounds_of(const struct zt_transfer *t);
/* Room where a rank of `size` ranks sends, and receives, a megabyte in a round. */
size_t zt_rounds_room(int size);

/* The communicator's functions of these names, by its start and wait. */
bool zt_rounds_broadcast(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err);
bool zt_rounds_sum(struct zt_comm *c, double *values, int count, struct zt_err *err);
bool zt_rounds_barrier(struct zt_comm *c, struct zt_err *err);

/* A communicator as its ranks see it: its number keeps its traffic apart from others of the same world. */
struct zt_part {
    int *world; /* by rank: its rank in the world; the owner frees it */
    int rank, size, context;
};
/* The world itself, number 0. */
struct zt_part zt_part_whole(int rank, int size);
/* The part of `c`, whose ranks are `world`, that asks for `color`. All ranks learn all colors; the number is the first
 * that no member has used for one yet, and *next_context the one behind it. */
bool zt_part_split(struct zt_comm *c, const int *world, int color, int *next_context, struct zt_part *part,
                   struct zt_err *err);

#endif
