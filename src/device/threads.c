#include "device/threads.h"

#include <omp.h>
#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Denormals are flushed to zero (FTZ) and read as zero (DAZ): they cost a hundred cycles each, and the bits live in a
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

void zt_parallel_for(int threads, int64_t chunks, void (*body)(void *arg, int64_t chunk), void *arg) {
    if (threads > chunks)
        threads = (int)chunks;
    if (threads <= 1) {
        for (int64_t i = 0; i < chunks; i++)
            body(arg, i);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        flush_denormals();
        int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
        for (int64_t i = chunks * me / team; i < chunks * (me + 1) / team; i++)
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
