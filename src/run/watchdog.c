#include "run/watchdog.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AT_LEAST_STEPS = 5, TIMES = 10 };
static const int64_t at_least_ns = INT64_C(10000000000);

struct zt_watchdog {
    struct zt_rank_status *const *ranks;
    int64_t *said; /* by rank: the last step that was reported */
    int count;
    void (*say)(void *arg, const char *line);
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ends;
};

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

bool zt_watchdog_overdue(int64_t ns, int64_t *took_ns, int count, int64_t *median_ns) {
    if (count < AT_LEAST_STEPS)
        return false;
    qsort(took_ns, (size_t)count, sizeof *took_ns, compare);
    *median_ns = took_ns[count / 2];
    return ns > at_least_ns && ns / TIMES > *median_ns;
}

static void look(struct zt_watchdog *d, int i) {
    struct zt_rank_status *w = d->ranks[i];
    int64_t took[ZT_RANK_STATUS_STEPS], began = atomic_load(&w->began_ns), step = atomic_load(&w->step), median;
    int count = atomic_load(&w->steps);
    count = count < ZT_RANK_STATUS_STEPS ? count : ZT_RANK_STATUS_STEPS;
    for (int k = 0; k < count; k++)
        took[k] = atomic_load(&w->took_ns[k]);
    int64_t ns = (int64_t)(zt_now() * 1e9) - began;
    if (!began || d->said[i] == step || !zt_watchdog_overdue(ns, took, count, &median))
        return;
    const char *node = atomic_load(&w->node), *inside = atomic_load(&w->inside);
    char line[512];
    snprintf(line, sizeof line, "rank %d: step %lld has taken %.0f s so far, others %.2g s; last node %s%s%s", w->rank,
             (long long)step, (double)ns * 1e-9, (double)median * 1e-9, node ? node : "none",
             inside ? ", waiting in " : "", inside ? inside : "");
    d->say(d->arg, line);
    d->said[i] = step;
}

static void *watch(void *arg) {
    struct zt_watchdog *d = arg;
    pthread_mutex_lock(&d->lock);
    while (!d->ends) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (pthread_cond_timedwait(&d->changed, &d->lock, &until) == ETIMEDOUT)
            for (int i = 0; i < d->count; i++)
                look(d, i);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

struct zt_watchdog *zt_watchdog_create(struct zt_rank_status *const *ranks, int count,
                                       void (*say)(void *arg, const char *line), void *arg) {
    struct zt_watchdog *d = zt_calloc(1, sizeof *d);
    *d = (struct zt_watchdog){ .ranks = ranks, .count = count, .say = say, .arg = arg };
    d->said = zt_calloc((size_t)count, sizeof *d->said);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    if (zt_thread_start(&d->thread, watch, d) == 0)
        return d;
    free(d->said);
    free(d);
    return NULL;
}

void zt_watchdog_destroy(struct zt_watchdog *d) {
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->ends = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->said);
    free(d);
}
