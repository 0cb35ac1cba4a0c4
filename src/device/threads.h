/* Compute threads: OpenMP's, and nothing else's.
 *
 * The work of a kernel is cut into chunks by a rule of its shape alone; threads take chunks. Inside a chunk everything
 * is sequential (the OpenMP thread count is 1 there, which vendor libraries honour), so results do not depend on the
 * number of threads. */
#ifndef ZT_DEVICE_THREADS_H
#define ZT_DEVICE_THREADS_H

#include "base/err.h"

#include <stdint.h>

/* body(arg, chunk) for every chunk in 0..chunks-1, on at most `threads` threads; returns when all are done. Chunks are
 * dealt out in equal contiguous ranges. Callable from several rank threads at once; not from within a body. */
void zt_parallel_for(int threads, int64_t chunks, void (*body)(void *arg, int64_t chunk), void *arg);

/* Index of the calling thread in its team, 0..threads-1: for scratch memory that only one chunk at a time uses. */
int zt_parallel_thread(void);

/* Prepares the calling thread for computing: one OpenMP thread for what it calls outside zt_parallel_for, denormals are
 * zero. Call once in each thread that runs kernels. zt_parallel_for does it for its helpers. */
void zt_parallel_enter(void);

/* Makes the calling thread's team of `threads` threads, which later calls of zt_parallel_for use: so that a system that
 * has no memory or no numbers for them says so here, and not OpenMP, which ends the process, in the middle of a step.
 */
bool zt_parallel_start(int threads, struct zt_err *err);

/* Cores the process may use. */
int zt_parallel_cores(void);

#endif
