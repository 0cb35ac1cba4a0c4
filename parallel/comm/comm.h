/* Communicators: how ranks exchange data. One interface of about ten functions; a row is one way of doing it.
 *
 * `self` (one rank) and `thread` (ranks are threads of one process) need nothing installed and are the definition; mpi,
 * tcp and nccl must agree with them. All functions are collective over the communicator unless said otherwise, called
 * in the same order by every rank, and return false with an error when a peer failed or the communicator was aborted:
 * no peer waits for ever.
 *
 * Same bits: reduce_scatter adds in rank order 0..size-1, element by element, whatever the slice bounds. */
#ifndef ZT_PARALLEL_COMM_COMM_H
#define ZT_PARALLEL_COMM_COMM_H

#include "base/err.h"
#include "parallel/comm/secret.h"
#include "parallel/comm/rank_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Slice bounds of a flat buffer: rank r owns elements [bound[r], bound[r + 1]). size + 1 ascending numbers. */
struct zt_comm;
struct zt_device;
struct zt_rounds_kind;
struct zt_shared_block;

/* A collective underway. The caller fills the first four, keeps the struct, `data` and `bound` where they are, and
 * leaves the contents of `data` alone until the transfer is done or a call of its communicator returned false. Callers
 * start the first two kinds; the others are how rounds.h runs what is no transfer of theirs. */
enum zt_transfer_kind { ZT_REDUCE_SCATTER, ZT_ALL_GATHER, ZT_BROADCAST, ZT_SUM, ZT_BARRIER };
struct zt_transfer {
    enum zt_transfer_kind kind;
    void *data;
    const int64_t *bound;
    size_t bytes_per_element; /* reduce_scatter: 4 */
    bool done;                /* set by poll and wait */
    struct {                  /* the communicator's own */
        struct zt_comm *comm;
        struct zt_transfer *next;
        const struct zt_rounds_kind *kind;
        const struct zt_shared_block *block;
        size_t bytes;
        int root, phase;
        unsigned came; /* barrier.h */
        int64_t round, rounds;
        double since_ms;
    } row;
};

enum { ZT_COMM_BUFFERED = 8 }; /* messages of a pair of ranks that send does not wait for */

struct zt_comm_api {
    const char *name;
    /* `flat` (bound[size] floats) is every rank's own contribution; on return the caller's slice of it holds the sum
     * over ranks, the rest is unspecified. */
    bool (*reduce_scatter)(struct zt_comm *c, float *flat, const int64_t *bound, struct zt_err *err);
    /* Every rank's slice of `flat` is copied to all others; on return `flat` is whole everywhere. `bytes_per_element` 4
     * or 2. */
    bool (*all_gather)(struct zt_comm *c, void *flat, const int64_t *bound, size_t bytes_per_element,
                       struct zt_err *err);
    /* The same two, begun and brought to their end while the caller computes. Transfers proceed in the order in which
     * they were started, and every other collective waits for those started before it; all ranks start the same ones in
     * the same order. They move in calls of this communicator alone, by the caller's thread: poll brings them as far as
     * it goes without waiting, and hears of an abort where none is underway; wait waits for one. */
    bool (*start)(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err);
    bool (*poll)(struct zt_comm *c, struct zt_err *err);
    bool (*wait)(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err);
    /* Collectives on memory[0..bytes), whole pages of zt_block_create() that are new, may be done with fewer copies
     * from here on, where the ranks can read it in each other; the same bits. Its first `bytes` are zero afterwards.
     * Ends with unshare, which is not collective, before the memory is given back. */
    bool (*share)(struct zt_comm *c, void *memory, size_t bytes, struct zt_err *err);
    void (*unshare)(struct zt_comm *c, void *memory);
    /* data[0..count) of rank `root` to all. */
    bool (*broadcast)(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err);
    /* Sums fp64 scalars over ranks, added in rank order; the result is on every rank. */
    bool (*sum)(struct zt_comm *c, double *values, int count, struct zt_err *err);
    bool (*barrier)(struct zt_comm *c, struct zt_err *err);
    /* Point to point. Sends are buffered up to ZT_COMM_BUFFERED messages a pair of ranks (one more waits); messages of
     * a pair arrive in order. */
    bool (*send)(struct zt_comm *c, const void *data, size_t bytes, int to, struct zt_err *err);
    bool (*recv)(struct zt_comm *c, void *data, size_t bytes, int from, struct zt_err *err);
    /* A communicator of the ranks with the same `color`, ordered by rank. Collective. Destroy it before its parent. */
    struct zt_comm *(*split)(struct zt_comm *c, int color, struct zt_err *err);
    /* Not collective: wakes every waiting peer of this communicator and its splits with `why` (their calls return
     * false). */
    void (*abort)(struct zt_comm *c, const char *why);
    void (*destroy)(struct zt_comm *c);
};

struct zt_comm { /* base of every communicator; rows put it first in their own struct */
    const struct zt_comm_api *api;
    int rank, size;
    struct zt_rank_status *where; /* borrowed; set by the owner, NULL: nobody asks */
};

/* One rank alone. */
struct zt_comm *zt_comm_self_create(void);
/* `size` communicators, one for each thread, written to comms[0..size). Each thread destroys its own. */
bool zt_comm_thread_create(int size, struct zt_comm *comms[], struct zt_err *err);

/* Ranks as processes that mpirun, srun or ztrain's own parent started: the world of MPI_COMM_WORLD. Collective over it;
 * starts MPI where it is not running yet, which takes long: not for one rank. All calls come from one
 * thread of the process. Between ranks of one host bytes go through a shared-memory window; abort reaches every rank
 * that waits in a call, on other hosts as a message. What it cannot reach is a rank that was killed: its peers wait
 * until the launcher ends them. ZT_MPI_MESSAGES_ONLY treats every rank as if it were on a host of its own, with the
 * same results.
 *
 * Destroying the world (all its splits before it) is collective unless it was aborted. MPI itself ends with the
 * process: call zt_comm_mpi_finalize() once, after everything else that could fail, with the exit code that will
 * follow. With 0 it waits for all ranks; otherwise for two seconds, then it has MPI end the ranks that are still there
 * with that code, and does not return. It does nothing where MPI was never started. */
enum zt_comm_mpi_paths { ZT_MPI_WINDOW_AND_MESSAGES, ZT_MPI_MESSAGES_ONLY };
struct zt_comm *zt_comm_mpi_create(enum zt_comm_mpi_paths paths, struct zt_err *err);
void zt_comm_mpi_finalize(int exit_code);

/* What users and launchers must know of the MPI that the program was built with. */
struct zt_mpi_kind {
    const char *srun;     /* value of srun's --mpi with which its ranks find each other: "pmix", "pmi2" */
    const char *variable; /* which is then in their environment */
    const char *pass;     /* option of its mpirun that hands a variable to other hosts; NULL: it hands on all */
};
const struct zt_mpi_kind *zt_comm_mpi_kind(void);

/* Ranks as processes, each of which somebody started with its number in the world and where rank 0 listens, as torchrun
 * does; no MPI. They prove to each other that they have the same secret, which is needed but over loopback. Collective:
 * returns once all have come, or fails after `seconds`. The end of a process ends the calls of all others. The error of
 * a lost rank begins with ZT_LOST_RANK on the lowest rank that is left and with that one's number, "rank N: ", on the
 * others. All calls come from one thread of the process. Destroying the world (all its splits before it) is collective
 * unless it failed. */
struct zt_meeting {
    const char *address; /* of rank 0: a name or a number */
    int port, rank, size, seconds;
    bool one_host; /* all ranks are on this host */
    struct zt_secret secret;
};
#define ZT_LOST_RANK "lost rank "
struct zt_comm *zt_comm_tcp_create(const struct zt_meeting *m, struct zt_err *err);

/* The same ranks with reduce_scatter and all_gather around a ring (ring.c), over the messages of `inner`, which it
 * takes over; no message of the caller's may be underway on it then. Outside the promise of the same bits: sums are
 * added in ring order. start does the whole exchange. */
struct zt_comm *zt_comm_ring_create(struct zt_comm *inner);

/* The same ranks for data in the memory of `device`, through host memory and `inner`, which it takes over where it
 * `owns` it: data of the collectives, of send and recv are the device's, the scalars of sum the host's. Works on its
 * queue in order: what wait and recv bring is there for what is queued later. Host memory grows with the first calls.
 */
struct zt_comm *zt_comm_staged_create(struct zt_comm *inner, struct zt_device *device, bool owns);

/* Transfers started and not done, in order; only the first one moves. */
struct zt_transfer_queue {
    struct zt_transfer *first, *last;
};
void zt_transfer_append(struct zt_transfer_queue *q, struct zt_transfer *t);

/* What rows share. The definition of a reduced sum: to[i] = ((from[0][i] + from[1][i]) + from[2][i]) + ... for i in
 * first..end-1; `to` may be one of the addends. */
void zt_comm_add_in_rank_order(float *to, const void *const *from, int ranks, int64_t first, int64_t end);
/* The collectives as they are where a row does nothing better: start, and wait. */
bool zt_comm_reduce_scatter(struct zt_comm *c, float *flat, const int64_t *bound, struct zt_err *err);
bool zt_comm_all_gather(struct zt_comm *c, void *flat, const int64_t *bound, size_t bytes_per_element,
                        struct zt_err *err);
/* share and unshare where a row gains nothing by it. */
bool zt_comm_share_nothing(struct zt_comm *c, void *memory, size_t bytes, struct zt_err *err);
void zt_comm_unshare_nothing(struct zt_comm *c, void *memory);
/* items[r] of every rank from the one of `bytes` bytes, a multiple of 4, that each has put at its own place. */
bool zt_comm_exchange(struct zt_comm *c, void *items, size_t bytes, struct zt_err *err);
/* Whether each of `ranks` ranks of this host can have a core. */
bool zt_comm_core_each(int ranks);
/* Pauses that a wait of one of `ranks` ranks of a host may spend before it sleeps, for 100 us, 0 where they outnumber
 * the cores; and such a pause. */
int zt_comm_spins(int ranks);
void zt_comm_pause(void);
/* Whether this rank, on its own account, is told that another gives no sign of life (heartbeat.h); NULL: it has no
 * zt_rank_status. The error says which rank, and where this one waits for it. */
const struct zt_missed *zt_comm_missed(const struct zt_rank_status *where, struct zt_err *err);
/* Whether `root` is a rank of the communicator. */
bool zt_comm_check_root(const struct zt_comm *c, int root, struct zt_err *err);
/* Whether `peer` is another rank of the communicator; the error names the function `what`. */
bool zt_comm_check_peer(const struct zt_comm *c, const char *what, int peer, struct zt_err *err);

#endif
