/* Threads beside the one that runs the step loop. */
#ifndef ZT_BASE_THREAD_H
#define ZT_BASE_THREAD_H

#include <pthread.h>

/* Starts body(arg) with all signals blocked, which are for the thread that calls this, but for the faults of its own
 * instructions (SIGBUS, SIGSEGV and their like). Returns 0 or the errno of pthread_create(). */
int zt_thread_start(pthread_t *thread, void *(*body)(void *arg), void *arg);

#endif
