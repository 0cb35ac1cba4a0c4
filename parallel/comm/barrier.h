/* Synchronisation of threads: a barrier that a thread may leave, and counters that other threads increment.
 *
 * A wait spins for some microseconds, then registers as a sleeper, checks once more, and sleeps, since there may be
 * more threads than cores. Threads that wake others take the lock only if there are sleepers.
 *
 * A thread that withdraws from a barrier revokes its arrival in one atomic step, which fails once the round is
 * complete: either all threads pass or none does. */
#ifndef ZT_PARALLEL_COMM_BARRIER_H
#define ZT_PARALLEL_COMM_BARRIER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Whether the awaited event has become impossible: that `peer` increments a counter, or (ZT_BARRIER_ALL) that a round
 * completes. Called with the lock held; zt_barrier_wake() must follow every change of the answer. */
typedef bool zt_barrier_impossible(const void *with, int peer);
enum { ZT_BARRIER_ALL = -1 };

struct zt_barrier {
    int size, spins;
    atomic_uint round;   /* completed rounds and, in the low half, threads that have arrived at the current one */
    atomic_int sleepers; /* waits that may be asleep */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    zt_barrier_impossible *impossible;
    const void *with; /* first argument of `impossible` */
};

/* For `size` threads, fewer than 65,536. */
void zt_barrier_init(struct zt_barrier *g, int size, zt_barrier_impossible *impossible, const void *with);
void zt_barrier_finish(struct zt_barrier *g);
/* Wakes all sleepers, which then check their condition again. */
void zt_barrier_wake(struct zt_barrier *g);

/* ---- rounds: a barrier in two halves ---- */

/* Arrives at the current round. *came identifies the round for the functions below. */
void zt_barrier_arrive(struct zt_barrier *g, unsigned *came);
bool zt_barrier_is_complete(struct zt_barrier *g, unsigned came);
/* Waits until the round is complete; false if that has become impossible. `certain`: all threads are known to arrive,
 * so `impossible` is not called. */
bool zt_barrier_wait(struct zt_barrier *g, unsigned came, bool certain);
/* Revokes this thread's arrival; false if the round is complete. */
bool zt_barrier_withdraw(struct zt_barrier *g, unsigned came);

/* ---- counters, which only grow ---- */

/* Increments *count and wakes its waiters. */
void zt_barrier_count(struct zt_barrier *g, atomic_uint *count);
/* Waits until *count differs from `old`; false if `peer` can no longer increment it. */
bool zt_barrier_await(struct zt_barrier *g, atomic_uint *count, unsigned old, int peer);

#endif
