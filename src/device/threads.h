/* Compute threads, all from OpenMP.
 *
 * A kernel divides its work into blocks by a rule of its shape alone; threads take blocks. Each block is computed
 * sequentially (the OpenMP thread count is 1 there, which vendor libraries respect), so that results do not depend on
 * the number of threads. */
#ifndef ZT_DEVICE_THREADS_H
#define ZT_DEVICE_THREADS_H

#include "base/err.h"

#include <stdint.h>

/* Calls body(arg, block) for every block in 0..blocks-1 on at most `threads` threads and returns when all have ended.
 * Each thread begins with a contiguous range of blocks, all of equal sizes, so that it finds in its caches what it
 * wrote in the call before; one that has ended takes blocks of the thread that has most left. Several rank threads may
 * call it at once; `body` must not. */
void zt_parallel_for(int threads, int64_t blocks, void (*body)(void *arg, int64_t block), void *arg);

/* Calls body(arg, step, piece) for every piece in 0..pieces-1 of every step in 0..steps-1 on at most `threads` threads.
 * A step begins when the one before has ended. A thread gets the same pieces of every step. */
void zt_parallel_steps(int threads, int64_t steps, int64_t pieces, void (*body)(void *arg, int64_t step, int64_t piece),
                       void *arg);

/* Returns the index of the calling thread in its team, 0..threads-1, for scratch memory per thread. */
int zt_parallel_thread(void);

/* Prepares the calling thread for computing: one OpenMP thread outside zt_parallel_for, and denormals are flushed to
 * zero. Must be called once in each thread that runs kernels; zt_parallel_for does it for its helpers. */
void zt_parallel_enter(void);

/* Creates the OpenMP team of the calling thread with `threads` threads. If the system lacks memory or the right to
 * create them, it reports an error here; otherwise OpenMP ends the process in the middle of a step. */
bool zt_parallel_start(int threads, struct zt_err *err);

/* Returns the number of cores available to the process. */
int zt_parallel_cores(void);

/* Returns the threads of a rank where nothing else says it: OMP_NUM_THREADS (its first number), else its part of the
 * cores, at least 1. `ranks`: how many share the host. */
int zt_parallel_default(int ranks);

/* Undoes OpenMP's binding of threads to places (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), which would bind the
 * first thread of every rank, and the threads that read data, to the same place. If such variables are set, removes
 * them from the environment, lets the calling thread run on the processors of all places, and returns true: OpenMP
 * stays bound until the program executes itself again. Call it before other threads start. */
bool zt_parallel_unbind(void);

#endif
