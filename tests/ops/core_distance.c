/* Nanoseconds that a cache line takes from one core to another, between the first two cores of the process: a tool, no
 * test, since it is about time. Virtual cores lie in one cache complex at one time and in two at another, which changes
 * what two threads pay for each other's data.
 *
 *     core_distance        {"ns": 45.1}; {"ns": null} with one core */
#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 500, ROUNDS = 200 }; /* a short round is not interrupted */

static _Alignas(128) atomic_int ball;

/* The calling thread runs on core number `nth` of the process alone. */
static bool bind_to(int nth) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all) && nth-- == 0)
            CPU_SET(core, &one);
    return CPU_COUNT(&one) == 1 && sched_setaffinity(0, sizeof one, &one) == 0;
}

static void wait_for(int turn) {
    while (atomic_load_explicit(&ball, memory_order_acquire) != turn)
        ;
}

static void *answer(void *bound) {
    *(bool *)bound = bind_to(1);
    for (int turn = 0; turn < ROUNDS * TURNS; turn++) {
        wait_for(2 * turn + 1);
        atomic_store_explicit(&ball, 2 * turn + 2, memory_order_release);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    cpu_set_t all;
    bool other = false;
    double best = HUGE_VAL;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) {
        puts("{\"ns\": null}");
        return 0;
    }
    if (pthread_create(&thread, NULL, answer, &other) != 0 || !bind_to(0)) {
        fprintf(stderr, "core_distance: no thread on a core of its own\n");
        return 1;
    }
    for (int round = 0, turn = 0; round < ROUNDS; round++) {
        const double began = zt_now();
        for (int i = 0; i < TURNS; i++, turn++) {
            atomic_store_explicit(&ball, 2 * turn + 1, memory_order_release);
            wait_for(2 * turn + 2);
        }
        best = fmin(best, (zt_now() - began) / TURNS / 2);
    }
    pthread_join(thread, NULL);
    if (!other) {
        fprintf(stderr, "core_distance: no second thread on a core of its own\n");
        return 1;
    }
    printf("{\"ns\": %.1f}\n", 1e9 * best);
    return 0;
}
