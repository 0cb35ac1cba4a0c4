#include "base/thread.h"

#include <signal.h>

int zt_thread_start(pthread_t *thread, void *(*body)(void *arg), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
