/* Collectives as a sequence of rounds, independent of the transport.
 *
 * In each round every rank gives some bytes (possibly none) to every other rank and processes the bytes that it
 * receives. A zt_rounds_kind defines the bytes of one collective; the transport moves them (shared-memory window, MPI
 * messages, TCP frames). All transports therefore add in the same code and give the same bits:
 *
 *     reduce_scatter   gives rank `to` this rank's addend of a piece of its slice; the owner adds in rank order
 *     all_gather       gives all ranks a piece of this rank's slice
 *     broadcast        the root gives all ranks a piece
 *     sum              gives all ranks some scalars; every rank adds them in rank order
 *     barrier          gives nothing */
#ifndef ZT_PARALLEL_COMM_ROUNDS_H
#define ZT_PARALLEL_COMM_ROUNDS_H

#include "parallel/comm/comm.h"

struct zt_rounds;

struct zt_rounds_kind {
    const char *name;
    bool same_for_all; /* all ranks receive the same bytes */
    /* Number of rounds, at least 1; the same on every rank. */
    int64_t (*count)(const struct zt_rounds *op);
    /* Bytes that rank `from` gives rank `to` in `round`, at most op->room. Both ranks compute the same number. */
    size_t (*bytes)(const struct zt_rounds *op, int64_t round, int from, int to);
    /* Address of the bytes for rank `to`. Only called if there are any. */
    const void *(*give)(const struct zt_rounds *op, int64_t round, int to);
    /* Processes the received bytes: given[r] is from rank r, for every other r. May set given[rank]. */
    void (*take)(const struct zt_rounds *op, int64_t round, const void **given);
};

struct zt_rounds {
    const struct zt_rounds_kind *kind;
    int rank, size;
    void *data;           /* the caller's buffer */
    const int64_t *bound; /* reduce_scatter, all_gather: size + 1 slice bounds in elements */
    size_t width;         /* bytes an element */
    enum zt_dtype dtype;  /* reduce_scatter: of the sum */
    size_t bytes;         /* the whole of `data` */
    int root;             /* broadcast, else 0 */
    const struct zt_shared_block
        *block;  /* the shared block that holds `data` and that other ranks read directly; NULL: none */
    size_t room; /* maximum bytes for one rank in one round, a multiple of 64; set by the transport */
};

/* Initialises t->row for the first round, except `block` and `rounds`, which the transport sets. */
void zt_rounds_prepare(struct zt_transfer *t, struct zt_comm *c);
/* The operation of a prepared transfer; `room` is not set. */
struct zt_rounds zt_rounds_of(const struct zt_transfer *t);
/* The `room` with which a rank sends and receives one megabyte per round among `size` ranks. */
size_t zt_rounds_room(int size);

/* The communicator's functions of these names, implemented with start and wait. */
bool zt_rounds_broadcast(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err);
bool zt_rounds_sum(struct zt_comm *c, double *values, int count, struct zt_err *err);
bool zt_rounds_barrier(struct zt_comm *c, struct zt_err *err);

/* Membership of a communicator. `context` separates its traffic from that of other communicators of the world. */
struct zt_part {
    int *world; /* by rank: its rank in the world; the owner frees it */
    int rank, size, context;
};
/* The world itself, context 0. */
struct zt_part zt_part_whole(int rank, int size);
/* Splits `c`, whose ranks are `world`, by `color`. All ranks learn all colors. The new context is the lowest number
 * that no member has used; *next_context becomes the number after it. */
bool zt_part_split(struct zt_comm *c, const int *world, int color, int *next_context, struct zt_part *part,
                   struct zt_err *err);

#endif
