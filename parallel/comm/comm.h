/* Communicators: exchange of data between ranks, through one interface with several implementations.
 *
 * `self` (one rank) and `thread` (ranks are threads of one process) need no library and define the results; mpi, tcp
 * and nccl must agree with them. Functions are collective over the communicator unless stated otherwise: every rank
 * calls them in the same order. They return false with an error when a peer has failed or the communicator was aborted,
 * so no rank waits for ever.
 *
 * Results are equal bit for bit: reduce_scatter adds in rank order 0..size-1, element by element, for all slice bounds.
 */
#ifndef ZT_PARALLEL_COMM_COMM_H
#define ZT_PARALLEL_COMM_COMM_H

#include "base/err.h"
#include "graph/ir/dtype.h"
#include "parallel/comm/secret.h"
#include "parallel/comm/rank_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zt_comm;
struct zt_device;
struct zt_rounds_kind;
struct zt_shared_block;

/* A collective in progress. The caller fills the first four members. The struct, `data` and `bound` must stay at their
 * addresses, and the caller must not access the contents of `data`, until the transfer is done or a call of the
 * communicator has returned false. Callers start the first two kinds; rounds.h uses the others internally. */
enum zt_transfer_kind { ZT_REDUCE_SCATTER, ZT_ALL_GATHER, ZT_BROADCAST, ZT_SUM, ZT_BARRIER };
struct zt_transfer {
    enum zt_transfer_kind kind;
    void *data;
    const int64_t *bound;     /* size + 1 ascending numbers: rank r owns elements bound[r]..bound[r + 1]-1 of `data` */
    size_t bytes_per_element; /* reduce_scatter: 4, or 2 with `dtype` */
    enum zt_dtype dtype; /* reduce_scatter: ZT_FLOAT16 or ZT_BFLOAT16, every addition is rounded to it; else fp32 */
    bool done;           /* set by poll and wait */
    struct {             /* private to the communicator */
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

enum { ZT_COMM_BUFFERED = 8 }; /* messages per pair of ranks that send buffers without waiting */

struct zt_comm_api {
    const char *name;
    /* `flat` (bound[size] floats) is the caller's contribution. On return the caller's slice holds the sum over ranks;
     * the rest is unspecified. */
    bool (*reduce_scatter)(struct zt_comm *c, float *flat, const int64_t *bound, struct zt_err *err);
    /* Copies each rank's slice of `flat` to all ranks. On return `flat` is complete. `bytes_per_element` is 4 or 2. */
    bool (*all_gather)(struct zt_comm *c, void *flat, const int64_t *bound, size_t bytes_per_element,
                       struct zt_err *err);
    /* The same two as non-blocking transfers, which overlap with computation. All ranks start the same transfers in the
     * same order. Transfers complete in the order in which they were started; every other collective first completes
     * the transfers started before it. They advance only in calls of this communicator, on the caller's thread: poll
     * advances them without waiting (and reports an abort), wait completes one. */
    bool (*start)(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err);
    bool (*poll)(struct zt_comm *c, struct zt_err *err);
    bool (*wait)(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err);
    /* Shares memory[0..bytes), new whole pages of zt_block_create(), so that later collectives on it may need fewer
     * copies; results are the same. The first `bytes` are zero afterwards. unshare (not collective) must be called
     * before the memory is freed. */
    bool (*share)(struct zt_comm *c, void *memory, size_t bytes, struct zt_err *err);
    void (*unshare)(struct zt_comm *c, void *memory);
    /* Copies data[0..bytes) of rank `root` to all ranks. */
    bool (*broadcast)(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err);
    /* Sums fp64 scalars over ranks, in rank order. Every rank gets the sums. */
    bool (*sum)(struct zt_comm *c, double *values, int count, struct zt_err *err);
    bool (*barrier)(struct zt_comm *c, struct zt_err *err);
    /* Point to point. send buffers up to ZT_COMM_BUFFERED messages per pair of ranks and waits when there are more.
     * Messages of a pair arrive in order. */
    bool (*send)(struct zt_comm *c, const void *data, size_t bytes, int to, struct zt_err *err);
    bool (*recv)(struct zt_comm *c, void *data, size_t bytes, int from, struct zt_err *err);
    /* Sends block r of `from` to rank r; on return block r of `to` is from rank r. `bytes` bytes each; `from` and `to`
     * do not overlap. No message or transfer of the caller may be in transit. */
    bool (*all_to_all)(struct zt_comm *c, const void *from, void *to, size_t bytes, struct zt_err *err);
    /* A communicator of the ranks with the same `color`, ordered by rank. It must be destroyed before its parent. */
    struct zt_comm *(*split)(struct zt_comm *c, int color, struct zt_err *err);
    /* Not collective. Every waiting call of a peer, in this communicator and its splits, returns false with `why`. */
    void (*abort)(struct zt_comm *c, const char *why);
    void (*destroy)(struct zt_comm *c);
};

struct zt_comm { /* the first member of every implementation's struct */
    const struct zt_comm_api *api;
    int rank, size;
    struct zt_rank_status *status; /* this rank's status, borrowed; set by the owner; NULL: not watched */
};

/* A communicator of one rank. */
struct zt_comm *zt_comm_self_create(void);
/* Creates `size` communicators, one per thread, in comms[0..size). Each thread destroys its own. */
bool zt_comm_thread_create(int size, struct zt_comm *comms[], struct zt_err *err);

/* Ranks as processes that mpirun, srun or ztrain's parent has started: MPI_COMM_WORLD. Collective. Initialises MPI if
 * necessary, which is slow, so a single rank should not use it. All calls must come from one thread of the process.
 * Ranks of one host exchange data through a shared-memory window; other ranks exchange messages. abort reaches every
 * rank that waits in a call. A killed rank cannot abort: the other ranks wait until the launcher ends them.
 * ZT_MPI_MESSAGES_ONLY uses messages between all ranks, with the same results.
 *
 * Destroying the world, after all its splits, is collective unless it was aborted. zt_comm_mpi_finalize() must be
 * called once, as the last step, with the process's exit code. With code 0 it waits for all ranks. With another code it
 * waits two seconds, then has MPI end the remaining ranks with that code, and does not return. It does nothing if MPI
 * was not initialised. */
enum zt_comm_mpi_paths { ZT_MPI_WINDOW_AND_MESSAGES, ZT_MPI_MESSAGES_ONLY };
struct zt_comm *zt_comm_mpi_create(enum zt_comm_mpi_paths paths, struct zt_err *err);
void zt_comm_mpi_finalize(int exit_code);

/* Properties of the MPI library that the program was built with. */
struct zt_mpi_kind {
    const char *srun;     /* value for srun's --mpi: "pmix" or "pmi2" */
    const char *variable; /* environment variable that srun then sets in each rank */
    const char *pass;     /* mpirun's option that exports a variable to other hosts; NULL: mpirun exports all */
};
const struct zt_mpi_kind *zt_comm_mpi_kind(void);

/* Ranks as processes without MPI, each started with its rank and the address of rank 0, as torchrun does. They
 * authenticate each other with a secret, which is optional over loopback only. Collective: returns when all ranks have
 * connected, or fails after `seconds`. When a process ends, the calls of all others fail. The error of a lost rank
 * begins with ZT_LOST_RANK on the lowest remaining rank, and with that rank's number, "rank N: ", on the others. All
 * calls must come from one thread of the process. Destroying the world, after all its splits, is collective unless it
 * failed. */
struct zt_meeting {
    const char *address; /* of rank 0: a host name or a numeric address */
    int port, rank, size, seconds;
    bool one_host; /* all ranks are on this host */
    struct zt_secret secret;
};
#define ZT_LOST_RANK "lost rank "
/* Connects the ranks as above. `m` is not kept. */
struct zt_comm *zt_comm_tcp_create(const struct zt_meeting *m, struct zt_err *err);

/* Wraps `inner`, which it owns from now on: reduce_scatter and all_gather use a ring of messages (ring.c). No message
 * of the caller may be in transit on `inner` during them. Sums are added in ring order, so results differ in bits from
 * those of other communicators. start completes the whole transfer. */
struct zt_comm *zt_comm_ring_create(struct zt_comm *inner);

/* Wraps `inner` for data in the memory of `device`, copied through host memory. Collectives, send and recv take device
 * memory; the scalars of sum are in host memory. Copies are queued on the device's stream, so work queued after wait or
 * recv sees the data. `owns`: destroy also destroys `inner`. Host buffers grow in the first calls. */
struct zt_comm *zt_comm_staged_create(struct zt_comm *inner, struct zt_device *device, bool owns);

/* Transfers in progress, in order; only the first one advances. */
struct zt_transfer_queue {
    struct zt_transfer *first, *last;
};
void zt_transfer_append(struct zt_transfer_queue *q, struct zt_transfer *t);

/* ---- for implementations ---- */

/* The definition of a reduced sum: to[i] = ((from[0][i] + from[1][i]) + from[2][i]) + ... for i in
 * first..end-1; `to` may be one of the addends. */
void zt_comm_add_in_rank_order(float *to, const void *const *from, int ranks, int64_t first, int64_t end);
/* The same for elements of a transfer's `dtype`; sums of 16 bits are rounded after each addition. */
void zt_comm_sum_in_rank_order(enum zt_dtype dtype, void *to, const void *const *from, int ranks, int64_t first,
                               int64_t end);
/* The blocking collectives as start and wait. */
bool zt_comm_reduce_scatter(struct zt_comm *c, float *flat, const int64_t *bound, struct zt_err *err);
bool zt_comm_all_gather(struct zt_comm *c, void *flat, const int64_t *bound, size_t bytes_per_element,
                        struct zt_err *err);
/* all_to_all as messages in rounds; in each, two ranks exchange their blocks. */
bool zt_comm_all_to_all(struct zt_comm *c, const void *from, void *to, size_t bytes, struct zt_err *err);
/* share and unshare of implementations without shared memory: they do nothing. */
bool zt_comm_share_nothing(struct zt_comm *c, void *memory, size_t bytes, struct zt_err *err);
void zt_comm_unshare_nothing(struct zt_comm *c, void *memory);
/* Exchanges one item per rank: on return items[r] is the item of rank r, `bytes` bytes each (a multiple of 4). Each
 * rank fills its own item before the call. */
bool zt_comm_exchange(struct zt_comm *c, void *items, size_t bytes, struct zt_err *err);
/* The code of an error that every rank finds and rank 0 says: `code` there, ZT_EXIT_RANK elsewhere. Waits until all
 * have found it: rank 0 would keep silent if the end of another rank reached it first, as what repeats that rank's
 * error. */
enum zt_exit zt_comm_found_by_all(struct zt_comm *c, enum zt_exit code);
/* Whether this host has a core for each of `ranks` ranks. */
bool zt_comm_core_each(int ranks);
/* Number of pauses (zt_comm_pause) to spin before sleeping, about 100 us; 0 if the `ranks` ranks of this host outnumber
 * its cores. */
int zt_comm_spins(int ranks);
void zt_comm_pause(void);
/* The rank whose heartbeat is missing (heartbeat.h), with an error that names it and the function that waits; NULL:
 * none, or `status` is NULL. */
const struct zt_missed *zt_comm_missed(const struct zt_rank_status *status, struct zt_err *err);
/* Whether `root` is a rank of the communicator. */
bool zt_comm_check_root(const struct zt_comm *c, int root, struct zt_err *err);
/* Whether `peer` is another rank of the communicator; the error names the function `what`. */
bool zt_comm_check_peer(const struct zt_comm *c, const char *what, int peer, struct zt_err *err);

#endif
