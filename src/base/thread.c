#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

/* Signals for faults of the thread itself. If they were blocked, they would end the process without a message
 * (mapped.h). */
static const int faults[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP };

int zt_thread_start(pthread_t *thread, void *(*body)(void *arg), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
