#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

/* Of the thread's own making: where these are blocked they end the process unheard (mapped.h). */
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
