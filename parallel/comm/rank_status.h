/* What a rank is doing, for whoever watches it from another thread: the watchdog, and the parent that wants to say
 * where a rank was when it was lost. The rank alone writes, but for `missed`, in stores that keep no order; readers see
 * each field whole, but not all fields of one moment. */
#ifndef ZT_PARALLEL_COMM_RANK_STATUS_H
#define ZT_PARALLEL_COMM_RANK_STATUS_H

#include <stdatomic.h>
#include <stdint.h>

enum { ZT_RANK_STATUS_STEPS = 64 };
#define ZT_PHASE_MPI "starting MPI" /* in MPI_Init, which waits for all ranks */

/* A rank that gives no sign of life (heartbeat.h). */
struct zt_missed {
    int rank; /* of the world */
    char host[64];
};

/* Zero-initialise, then set `rank` and `place`, which stay. Texts are borrowed: they must live until the rank has left
 * them (zt_rank_status_phase, zt_rank_status_node with NULL). */
struct zt_rank_status {
    int rank;
    char place[64];                             /* zt_grid_place */
    _Atomic(const char *) phase;                /* "planning", "stepping", ...; NULL: start-up */
    _Atomic(const char *) node;                 /* the kernel that runs or ran last; NULL: none yet */
    _Atomic(const char *) inside;               /* function of a communicator it is in; NULL: none */
    atomic_llong step;                          /* from 1; 0: none yet */
    atomic_llong began_ns;                      /* monotonic time at which the step began; 0: not in a step */
    atomic_llong took_ns[ZT_RANK_STATUS_STEPS]; /* of the last steps, in a ring */
    atomic_int steps;                           /* written into the ring so far */
    _Atomic(const struct zt_missed *) missed;   /* what the rank itself is told; NULL: nobody is */
};

/* All take NULL for a rank that nobody watches. */
static inline void zt_rank_status_phase(struct zt_rank_status *w, const char *phase) {
    if (w)
        atomic_store_explicit(&w->phase, phase, memory_order_relaxed);
}
static inline void zt_rank_status_node(struct zt_rank_status *w, const char *node) {
    if (w)
        atomic_store_explicit(&w->node, node, memory_order_relaxed);
}
/* Returns what it was in before: functions of communicators may use each other. */
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
/* A step begins, or ends: its time goes into the ring. Times are monotonic nanoseconds. */
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
