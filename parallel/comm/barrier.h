/* Where threads wait for each other: at a barrier that a thread may give up, and for counts that others raise.
 *
 * A wait spins for some microseconds, then says that it sleeps, looks once more, and sleeps: there may be more threads
 * than cores. Nobody takes the lock to wake threads of which none sleeps.
 *
 * A thread that gives up a barrier takes its arrival back in one step, which only works while the round is not
 * complete: all pass or none does. */
#ifndef ZT_PARALLEL_COMM_BARRIER_H
#define ZT_PARALLEL_COMM_BARRIER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Whether what a thread waits for can no longer happen, for good: that `peer` raises a count, or with ZT_BARRIER_ALL
 * that a round is completed. Asked under the lock; who changes the answer rouses those that sleep. */
typedef bool zt_barrier_impossible(const void *with, int peer);
enum { ZT_BARRIER_ALL = -1 };

struct zt_barrier {
    int size, spins;
    atomic_uint round;   /* rounds completed and, in the low half, threads that have arrived at the present one */
    atomic_int sleepers; /* waits that may sleep */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    zt_barrier_impossible *hopeless;
    const void *with;
};

/* For `size` threads, fewer than 65,536. `with` goes to `hopeless`. */
void zt_barrier_init(struct zt_barrier *g, int size, zt_barrier_impossible *hopeless, const void *with);
void zt_barrier_finish(struct zt_barrier *g);
/* Whoever sleeps looks again. */
void zt_barrier_wake(struct zt_barrier *g);

/* ---- rounds: a barrier in two halves ---- */

/* *came is what the other functions know the round by. */
void zt_barrier_arrive(struct zt_barrier *g, unsigned *came);
bool zt_barrier_is_complete(struct zt_barrier *g, unsigned came);
/* Waits for it; false where that is hopeless, which it is not where it is `certain` that all come. */
bool zt_barrier_wait(struct zt_barrier *g, unsigned came, bool certain);
/* As if this thread had not come; false where the round is complete. */
bool zt_barrier_withdraw(struct zt_barrier *g, unsigned came);

/* ---- counts, which only grow ---- */

void zt_barrier_count(struct zt_barrier *g, atomic_uint *count);
/* Until *count is no longer `old`; false where that is hopeless. */
bool zt_barrier_await(struct zt_barrier *g, atomic_uint *count, unsigned old, int peer);

#endif
