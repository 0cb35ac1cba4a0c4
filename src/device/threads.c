#include "device/threads.h"

#include "base/arena.h"
#include "base/thread.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Sets FTZ and DAZ: denormals are flushed to zero, because each costs about a hundred cycles. The flags belong to a
 * register of each thread. */
static void flush_denormals(void) {
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

void zt_parallel_enter(void) {
    omp_set_num_threads(1);
    flush_denormals();
}

/* Test threads wait for this barrier, so that all exist at the same time. */
static void *wait_for_all(void *barrier) {
    pthread_mutex_lock(barrier);
    pthread_mutex_unlock(barrier);
    return NULL;
}

static int try_threads(int count) {
    pthread_t *thread = zt_calloc((size_t)count, sizeof *thread);
    pthread_mutex_t barrier = PTHREAD_MUTEX_INITIALIZER;
    int started = 0, failed = 0;
    pthread_mutex_lock(&barrier);
    while (started < count && !(failed = zt_thread_start(&thread[started], wait_for_all, &barrier)))
        started++;
    pthread_mutex_unlock(&barrier);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return failed;
}

bool zt_parallel_start(int threads, struct zt_err *err) {
    enum { TEAM_BYTES = 1 << 20 }; /* memory that OpenMP allocates; it ends the process on failure */
    if (!zt_block_room(TEAM_BYTES))
        return zt_fail(err, ZT_EXIT_RUN, "out of memory: less than 1 MiB is left for compute threads");
    int failed = try_threads(threads - 1);
    if (failed) {
        zt_fail(err, ZT_EXIT_RUN, "%d compute threads cannot be started: %s", threads, strerror(failed));
        return zt_hint(err, "use fewer --threads, or allow more memory (ulimit -v) and processes (ulimit -u)");
    }
#pragma omp parallel num_threads(threads)
    flush_denormals();
    return true;
}

/* ---- blocks ---- */

enum {
    MOST_SHARES = 64, /* more threads have some of them in common */
    TAKEN = 8,        /* part of what is left that a thread takes at once */
};

/* Units that are still to be taken: the first in the low half, the end in the high half. A cache line. */
struct share {
    _Alignas(64) _Atomic uint64_t units;
};

static uint64_t share_of(uint64_t from, uint64_t end) {
    return end << 32 | from;
}
static uint64_t first_of(uint64_t share) {
    return share & UINT32_MAX;
}
static uint64_t left_in(uint64_t share) {
    return (share >> 32) - first_of(share);
}

/* Takes units `taken` of a share, from its front or its back; false where none is left. */
static bool take(struct share *s, bool front, uint64_t *taken) {
    uint64_t share = atomic_load_explicit(&s->units, memory_order_relaxed), rest;
    do {
        const uint64_t count = (left_in(share) + TAKEN - 1) / TAKEN, first = first_of(share), end = share >> 32;
        if (count == 0)
            return false;
        *taken = front ? share_of(first, first + count) : share_of(end - count, end);
        rest = front ? share_of(first + count, end) : share_of(first, end - count);
    } while (
        !atomic_compare_exchange_weak_explicit(&s->units, &share, rest, memory_order_relaxed, memory_order_relaxed));
    return true;
}

static uint64_t left(const struct share *s) {
    return left_in(atomic_load_explicit(&s->units, memory_order_relaxed));
}

/* `own` while something is left of it, then the share that has most left; NULL where nothing is. */
static struct share *next_share(struct share *shares, int count, struct share *own) {
    uint64_t most = left(own);
    if (most > 0)
        return own;
    struct share *best = NULL;
    for (int i = 0; i < count; i++) {
        const uint64_t other = left(&shares[i]);
        if (other > most) {
            best = &shares[i];
            most = other;
        }
    }
    return best;
}

void zt_parallel_for(int threads, int64_t blocks, void (*body)(void *arg, int64_t block), void *arg) {
    if (threads > blocks)
        threads = (int)blocks;
    if (threads <= 1) {
        for (int64_t i = 0; i < blocks; i++)
            body(arg, i);
        return;
    }
    const int64_t unit = blocks / UINT32_MAX + 1, units = (blocks + unit - 1) / unit; /* unit: blocks of one */
    const int count = threads < MOST_SHARES ? threads : MOST_SHARES;
    struct share shares[MOST_SHARES];
    for (int i = 0; i < count; i++)
        atomic_init(&shares[i].units, share_of((uint64_t)(units * i / count), (uint64_t)(units * (i + 1) / count)));
#pragma omp parallel num_threads(threads)
    {
        flush_denormals();
        struct share *own = &shares[omp_get_thread_num() * count / threads], *from;
        uint64_t taken = 0;
        while ((from = next_share(shares, count, own)))
            if (take(from, from == own, &taken))
                for (int64_t i = (int64_t)first_of(taken) * unit; i < (int64_t)(taken >> 32) * unit && i < blocks; i++)
                    body(arg, i);
    }
}

void zt_parallel_steps(int threads, int64_t steps, int64_t pieces, void (*body)(void *arg, int64_t step, int64_t piece),
                       void *arg) {
    if (threads > pieces)
        threads = (int)pieces;
    if (threads <= 1) {
        for (int64_t step = 0; step < steps; step++)
            for (int64_t i = 0; i < pieces; i++)
                body(arg, step, i);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        flush_denormals();
        const int thread = omp_get_thread_num(), team = omp_get_num_threads();
        const int64_t first = pieces * thread / team, end = pieces * (thread + 1) / team;
        for (int64_t step = 0; step < steps; step++) {
            for (int64_t i = first; i < end; i++)
                body(arg, step, i);
#pragma omp barrier
        }
    }
}

int zt_parallel_thread(void) {
    return omp_get_thread_num();
}

static void allow_all_places(void) {
    enum { MOST = CPU_SETSIZE };
    static int processors[MOST];
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int place = 0; place < omp_get_num_places(); place++) {
        const int count = omp_get_place_num_procs(place);
        if (count > MOST)
            return;
        omp_get_place_proc_ids(place, processors);
        for (int i = 0; i < count; i++)
            if (processors[i] >= 0 && processors[i] < CPU_SETSIZE)
                CPU_SET(processors[i], &set);
    }
    if (CPU_COUNT(&set) > 0)
        sched_setaffinity(0, sizeof set, &set);
}

bool zt_parallel_unbind(void) {
    static const char *const variables[] = { "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY" };
    bool set = false;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        set |= getenv(variables[i]) != NULL;
    if (!set || omp_get_proc_bind() == omp_proc_bind_false)
        return false;
    allow_all_places();
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return true;
}

int zt_parallel_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int zt_parallel_default(int ranks) {
    enum { MOST = 4096 }; /* as of --threads; OpenMP says itself what it cannot read */
    const char *wanted = getenv("OMP_NUM_THREADS");
    const long count = wanted ? strtol(wanted, NULL, 10) : 0;
    if (count > 0 && count <= MOST)
        return (int)count;
    const int each = zt_parallel_cores() / (ranks > 1 ? ranks : 1);
    return each > 0 ? each : 1;
}
