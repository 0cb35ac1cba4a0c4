#include "tests/suite.h"

#include "base/clock.h"
#include "base/thread.h"

#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

struct seen {
    sigset_t mask;
    double at;
};

static void *look(void *arg) {
    struct seen *seen = arg;
    pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
    usleep(2000);
    seen->at = zt_now();
    return NULL;
}

START_TEST(a_thread_takes_no_signals_but_its_own_faults_and_the_one_that_started_it_goes_on_as_before) {
    struct seen seen;
    sigset_t own, before, after;
    pthread_t thread;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &own, &before);
    ck_assert_int_eq(zt_thread_start(&thread, look, &seen), 0);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (int signal = 1; signal <= SIGSYS; signal++) {
        ck_assert_msg(sigismember(&after, signal) == (signal == SIGUSR2), "signal %d of the one that started it",
                      signal);
        bool fault = signal == SIGBUS || signal == SIGSEGV || signal == SIGFPE || signal == SIGILL || signal == SIGTRAP;
        if (signal != SIGKILL && signal != SIGSTOP)
            ck_assert_msg(sigismember(&seen.mask, signal) == !fault, "signal %d of the thread", signal);
    }
}
END_TEST

START_TEST(the_clock_is_one_for_all_threads_and_counts_seconds) {
    struct seen seen;
    pthread_t thread;
    double before = zt_now();
    ck_assert_int_eq(zt_thread_start(&thread, look, &seen), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(seen.at - before >= 2e-3 && zt_now() >= seen.at);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("thread");
    tcase_add_test(cases, a_thread_takes_no_signals_but_its_own_faults_and_the_one_that_started_it_goes_on_as_before);
    tcase_add_test(cases, the_clock_is_one_for_all_threads_and_counts_seconds);
    return run_suite("thread", cases, CK_FORK);
}
