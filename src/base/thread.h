/* Threads that run beside the training loop. */
#ifndef ZT_BASE_THREAD_H
#define ZT_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread that runs body(arg) with all signals blocked, except those for faults of its own instructions
 * (SIGBUS, SIGSEGV and similar). Returns 0 or the errno of pthread_create(). */
int zt_thread_start(pthread_t *thread, void *(*body)(void *arg), void *arg);

#endif
