/* Rank status: the current phase, step, kernel and collective of a rank, for readers in other threads (the watchdog,
 * and the connection to the parent, which reports where a lost rank was). Only the rank writes, except `missed`. Stores
 * are relaxed: each member is consistent, but different members may belong to different moments. */
#ifndef ZT_PARALLEL_COMM_RANK_STATUS_H
#define ZT_PARALLEL_COMM_RANK_STATUS_H

#include <stdatomic.h>
#include <stdint.h>

enum { ZT_RANK_STATUS_STEPS = 64 };
#define ZT_PHASE_MPI "starting MPI" /* in MPI_Init, which waits for all ranks */

/* A rank whose heartbeat is missing (heartbeat.h). */
struct zt_missed {
    int rank; /* of the world */
    char host[64];
};

/* Zero-initialise, then set `rank` and `place`, which are constant. Strings are borrowed and must stay valid until they
 * are replaced. */
struct zt_rank_status {
    int rank;
    char place[64];                             /* zt_grid_place */
    _Atomic(const char *) phase;                /* "planning", "stepping"; NULL: start-up */
    _Atomic(const char *) node;                 /* the current or last kernel; NULL: none yet */
    _Atomic(const char *) inside;               /* the communicator function that is running; NULL: none */
    atomic_llong step;                          /* from 1; 0: none yet */
    atomic_llong began_ns;                      /* monotonic time at which the step began; 0: not in a step */
    atomic_llong took_ns[ZT_RANK_STATUS_STEPS]; /* times of the last steps, a ring buffer */
    atomic_int steps;                           /* steps written to the ring buffer */
    _Atomic(const struct zt_missed *) missed;   /* set by the heartbeat thread; NULL: no rank is missing */
};

/* All functions accept NULL: the rank is not watched. */
static inline void zt_rank_status_phase(struct zt_rank_status *w, const char *phase) {
    if (w)
        atomic_store_explicit(&w->phase, phase, memory_order_relaxed);
}
static inline void zt_rank_status_node(struct zt_rank_status *w, const char *node) {
    if (w)
        atomic_store_explicit(&w->node, node, memory_order_relaxed);
}
/* Returns the previous function, for zt_rank_status_leave(): communicator functions may call each other. */
static inline const char *zt_rank_status_enter(struct zt_rank_status *w, const char *function) {
    if (!w)
        return (const char *)0;
    const char *before = atomic_load_explicit(&w->inside, memory_order_relaxed);
    atomic_store_explicit(&w->inside, function, memory_order_relaxed);
    return before;
}
static inline void zt_rank_status_leave(struct zt_rank_status *w, const char *before) {
    if (w)
        atomic_store_explicit(&w->inside, before, memory_order_relaxed);
}
/* Start and end of a step; the end records its time. Times are monotonic nanoseconds. */
static inline void zt_rank_status_begin(struct zt_rank_status *w, int64_t step, int64_t now_ns) {
    if (!w)
        return;
    atomic_store(&w->step, step);
    atomic_store(&w->began_ns, now_ns);
}
static inline void zt_rank_status_end(struct zt_rank_status *w, int64_t now_ns) {
    if (!w)
        return;
    int at = atomic_load(&w->steps);
    atomic_store(&w->took_ns[at % ZT_RANK_STATUS_STEPS], now_ns - atomic_load(&w->began_ns));
    atomic_store(&w->steps, at + 1);
    atomic_store(&w->began_ns, 0);
}

#endif
