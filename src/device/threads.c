#include "device/threads.h"

#include "base/arena.h"
#include "base/thread.h"

#include <omp.h>
#include <sched.h>
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

void zt_parallel_for(int threads, int64_t blocks, void (*body)(void *arg, int64_t block), void *arg) {
    if (threads > blocks)
        threads = (int)blocks;
    if (threads <= 1) {
        for (int64_t i = 0; i < blocks; i++)
            body(arg, i);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        flush_denormals();
        int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
        for (int64_t i = blocks * me / team; i < blocks * (me + 1) / team; i++)
            body(arg, i);
    }
}

int zt_parallel_thread(void) {
    return omp_get_thread_num();
}

int zt_parallel_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}
