#include "run/stop/stop.h"

#include "base/arena.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1 };
enum { SIGNALS = sizeof signals / sizeof *signals };

struct zt_stop {
    pthread_t thread;
    sigset_t watched, before; /* before: signal mask of the thread that created it */
    struct sigaction actions[SIGNALS];
    bool supervised;
    bool heard[2]; /* stop signals of others; those that the supervisor passed on */
    atomic_bool armed, save, ends;
    atomic_int signal; /* signal to stop for; 0: none */
};

void zt_stop_prepare(void) {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* Passes a signal on to the launcher's handler that was installed before (parallel/launch/supervisor_channel.h). */
static void hand_on(const struct zt_stop *s, int signal) {
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == signal && s->actions[i].sa_handler != SIG_DFL && s->actions[i].sa_handler != SIG_IGN)
            s->actions[i].sa_handler(signal);
}

/* The launcher's daemon is the parent of its ranks; 0: a terminal or the kernel, which signal the supervisor as well.
 */
static bool is_launchers(const siginfo_t *info) {
    return info->si_pid == getppid() || info->si_pid == 0;
}

/* Takes a stop signal; false where it is the second one. What ends all processes of a job at once, as Slurm's scancel
 * does, reaches a rank twice: itself, and through the supervisor. */
static bool take(struct zt_stop *s, int signal, bool passed_on) {
    int none = 0;
    if (s->heard[passed_on])
        return false;
    s->heard[passed_on] = true;
    atomic_compare_exchange_strong(&s->signal, &none, signal);
    return true;
}

static void *watch(void *arg) {
    struct zt_stop *s = arg;
    while (!atomic_load(&s->ends)) {
        siginfo_t info;
        int signal = sigwaitinfo(&s->watched, &info);
        if (signal == SIGRTMIN)
            continue;
        if (signal < 0)
            continue;
        if (s->supervised && is_launchers(&info))
            hand_on(s, signal);
        else if (signal == SIGUSR1)
            atomic_store(&s->save, true);
        else if (!atomic_load(&s->armed) || !take(s, signal, info.si_pid == getpid()))
            _exit(128 + signal);
    }
    return NULL;
}

/* Never called, because the signals are blocked. Installing it shows that this process handles them. */
static void handler(int signal) {
    (void)signal;
}

static void restore(struct zt_stop *s) {
    for (int i = 0; i < SIGNALS; i++)
        if (sigismember(&s->watched, signals[i]))
            sigaction(signals[i], &s->actions[i], NULL);
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}

struct zt_stop *zt_stop_create(bool supervised, struct zt_err *err) {
    struct zt_stop *s = zt_calloc(1, sizeof *s);
    struct sigaction handled = { .sa_handler = handler };
    s->supervised = supervised;
    sigemptyset(&s->watched);
    sigaddset(&s->watched, SIGRTMIN); /* wakes the waiting thread */
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], NULL, &s->actions[i]) == 0 && (supervised || s->actions[i].sa_handler != SIG_IGN))
            sigaddset(&s->watched, signals[i]);
    pthread_sigmask(SIG_BLOCK, &s->watched, &s->before);
    for (int i = 0; i < SIGNALS; i++)
        if (sigismember(&s->watched, signals[i]))
            sigaction(signals[i], &handled, NULL);
    int failed = pthread_create(&s->thread, NULL, watch, s);
    if (!failed)
        return s;
    zt_fail(err, ZT_EXIT_RUN, "the thread that waits for signals cannot start: %s", strerror(failed));
    restore(s);
    free(s);
    return NULL;
}

void zt_stop_destroy(struct zt_stop *s) {
    if (!s)
        return;
    /* pthread_cancel() would load a library and end the process if memory is missing */
    atomic_store(&s->ends, true);
    pthread_kill(s->thread, SIGRTMIN);
    pthread_join(s->thread, NULL);
    restore(s);
    free(s);
}

void zt_stop_arm(struct zt_stop *s, bool armed) {
    if (s)
        atomic_store(&s->armed, armed);
}

void zt_stop_take(struct zt_stop *s, double requests[ZT_REQUESTS]) {
    if (!s)
        return;
    int signal = atomic_load(&s->signal);
    requests[ZT_REQUEST_TERM] += signal == SIGTERM;
    requests[ZT_REQUEST_INT] += signal == SIGINT;
    requests[ZT_REQUEST_HUP] += signal == SIGHUP;
    requests[ZT_REQUEST_SAVE] += atomic_exchange(&s->save, false);
}

int zt_stop_signal(const double requests[ZT_REQUESTS]) {
    return requests[ZT_REQUEST_TERM] > 0  ? SIGTERM
           : requests[ZT_REQUEST_INT] > 0 ? SIGINT
           : requests[ZT_REQUEST_HUP] > 0 ? SIGHUP
                                          : 0;
}
